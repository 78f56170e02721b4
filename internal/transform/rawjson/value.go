package rawjson

// Number says whether text is a JSON number.
func Number(text string) bool {
	if text == "" || text[0] != '-' && text[0]-'0' > 9 {
		return false
	}
	s := Scanner{src: []byte(text)}
	return s.number() == nil && s.at == len(text)
}

// Value makes Go values of a checked value without white space: nil, bool,
// string, []any, map[string]any, and what number makes of a number.
func Value(raw []byte, number func(raw []byte) any) any {
	switch raw[0] {
	case '"':
		text, _ := String(raw)
		return text
	case 't':
		return true
	case 'f':
		return false
	case 'n':
		return nil
	case '[':
		list := []any{}
		for i := 1; i < len(raw)-1; i++ { // behind a comma
			n := valueEnd(raw[i:])
			list = append(list, Value(raw[i:i+n], number))
			i += n
		}
		return list
	case '{':
		object := map[string]any{}
		eachMember(raw, func(m Member) bool {
			object[string(Unescape(nil, m.Name))] = Value(m.Value, number)
			return true
		})
		return object
	}
	return number(raw)
}
