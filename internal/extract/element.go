package extract

// element is what elements of one kind have in common.
type element uint8

const (
	block  element = iota // separates words even without white space between them
	inline                // does not
	anchor                // inline, too
	area
	title
	root // html
	meta
	link
	heading
	body
	main
	article

	// Silent elements hold no text of the page: code, drawings, forms' inner
	// life, and the navigation that every page of a site repeats. Each is a kind
	// of its own, to be matched with its end tag.
	script
	style
	textarea
	noscript
	template
	iframe
	embedded // object
	svg
	math
	nav
	selection
	button
	canvas
	audio
	video
)

func (e element) silent() bool { return e >= script }

func (e element) apart() bool { return e != inline && e != anchor }

// elementOf tells an element by its name in lower case.
func elementOf(name []byte) element {
	switch string(name) {
	case "a":
		return anchor
	case "abbr", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i", "ins", "kbd", "mark", "q", "s",
		"samp", "small", "span", "strong", "sub", "sup", "time", "tt", "u", "var", "wbr":
		return inline
	case "area":
		return area
	case "title":
		return title
	case "html":
		return root
	case "meta":
		return meta
	case "link":
		return link
	case "h1", "h2", "h3", "h4", "h5", "h6":
		return heading
	case "body":
		return body
	case "main":
		return main
	case "article":
		return article
	}
	return silentElement(name)
}

func silentElement(name []byte) element {
	switch string(name) {
	case "script":
		return script
	case "style":
		return style
	case "textarea":
		return textarea
	case "noscript":
		return noscript
	case "template":
		return template
	case "iframe":
		return iframe
	case "object":
		return embedded
	case "svg":
		return svg
	case "math":
		return math
	case "nav":
		return nav
	case "select":
		return selection
	case "button":
		return button
	case "canvas":
		return canvas
	case "audio":
		return audio
	case "video":
		return video
	}
	return block
}
