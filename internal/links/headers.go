package links

import (
	"net/http"
	"strings"

	"trawl/internal/weburl"
)

// Headers appends the locators of a response's Location (KindRedirect,
// HowRedirect), Refresh and Link headers, and reads X-Robots-Tag. The caller
// knows whether the status makes a Location a redirect.
func Headers(dst []Found, base weburl.URL, h http.Header, opt Options) ([]Found, Meta) {
	opt.Charset = ""
	f := newFinder(dst, base, HowRedirect, opt)
	if v := h.Get("Location"); v != "" {
		f.add([]byte(v), KindRedirect)
	}
	f.how = HowLink
	if v := h.Get("Refresh"); v != "" && len(v) <= maxRef {
		f.refresh([]byte(v))
	}
	for _, v := range h.Values("Link") {
		if len(v) <= maxHeaderLen {
			f.linkHeader(v)
		}
	}
	for _, v := range h.Values("X-Robots-Tag") {
		// "agent: directives" speaks to another agent.
		if !strings.Contains(v, ":") || strings.HasPrefix(strings.TrimSpace(v), "unavailable_after") {
			f.robots([]byte(v))
		}
	}
	return f.done()
}

// linkHeader reads `<url>; rel=next; title="a, b", <url>` by RFC 8288.
func (f *finder) linkHeader(v string) {
	for {
		i := strings.IndexByte(v, '<')
		if i < 0 {
			return
		}
		j := strings.IndexByte(v[i:], '>')
		if j < 0 {
			return
		}
		a := attrs{href: []byte(v[i+1 : i+j])}
		a.rel, v = linkRel(v[i+j+1:])
		f.link(&a)
	}
}

// linkRel reads the parameters of one link and gives its rel and what follows
// the comma that ends it.
func linkRel(v string) (rel []byte, rest string) {
	for {
		v = strings.TrimLeft(v, " \t;")
		if v == "" {
			return rel, ""
		}
		if v[0] == ',' {
			return rel, v[1:]
		}
		i := strings.IndexAny(v, "=;,")
		if i < 0 {
			return rel, ""
		}
		name := strings.TrimSpace(v[:i])
		if v[i] != '=' {
			v = v[i:]
			continue
		}
		var value string
		value, v = paramValue(strings.TrimLeft(v[i+1:], " \t"))
		if rel == nil && strings.EqualFold(name, "rel") {
			rel = []byte(value)
		}
	}
}

// paramValue reads a token or a quoted string.
func paramValue(v string) (value, rest string) {
	if v == "" || v[0] != '"' {
		i := strings.IndexAny(v, ";,")
		if i < 0 {
			return v, ""
		}
		return v[:i], v[i:]
	}
	for i := 1; i < len(v); i++ {
		switch v[i] {
		case '\\':
			i++
		case '"':
			return v[1:i], v[i+1:]
		}
	}
	return v[1:], ""
}
