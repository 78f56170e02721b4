package settings

import (
	"fmt"
	"strings"
)

//go:generate go test -run TestReference -update .

// Reference is docs/settings.md. A test compares the file with it.
func Reference() string {
	var b strings.Builder
	b.WriteString(`# The environment

<!-- Generated from internal/settings/settings.go by "go generate ./internal/settings". Do not edit. -->

` + "`worker` and `starter`" + ` read the same variables. An empty variable counts as
unset; an unknown one that begins with TRAWL_ is refused. Values marked secret
are never printed or logged.

| variable | default | meaning |
| --- | --- | --- |
`)
	for _, v := range table {
		doc := v.Doc
		if v.Secret {
			doc += " Secret."
		}
		def := v.Default
		switch {
		case def == "":
			def = "none"
		case v.def == nil && !strings.Contains(def, " "):
			def = "`" + def + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", v.Name, def, doc)
	}
	return b.String()
}
