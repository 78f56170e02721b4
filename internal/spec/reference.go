package spec

import (
	"fmt"
	"strings"
)

//go:generate go test -run TestReference -update .

// Reference is docs/spec.md: every key with its kind, default, flag and an
// example. A test compares the file with it.
func Reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	for _, k := range keys {
		fmt.Fprintf(&b, "\n### `%s`\n\n%s\n\n", k.Path, k.Doc)
		fmt.Fprintf(&b, "| | |\n| --- | --- |\n| kind | %s |\n| default | %s |\n| flag | `--%s` |\n| example | `%s: %s` |\n",
			k.Kind, k.Default, k.Flag, lastPart(k.Path), strings.ReplaceAll(k.Example, "|", `\|`))
		if k.Mutable {
			b.WriteString("| may change when the crawl goes on | yes |\n")
		}
	}
	return b.String()
}

func lastPart(path string) string { return path[strings.LastIndex(path, ".")+1:] }

// Sample is the spec that the reference shows; a test parses it.
const Sample = `name: example-manual
seeds:
  urls: [https://docs.example.org/manual/]
  sitemaps: [https://docs.example.org/sitemap.xml]
scope:
  hosts: [docs.example.org]
  path_prefixes: [/manual/]
  exclude: ['[?&]print=']
  depth: 20
limits:
  pages: 10000
  time: 6h
politeness:
  delay: 1s
  contact: https://example.org/our-crawler
sink:
  kind: sqlite
document:
  fields: [title, text, headings, canonical, fetched_at]
`

const referenceHead = `# The spec

<!-- Generated from internal/spec/keys.go by "go generate ./internal/spec". Do not edit. -->

A spec says what to crawl, how fast, and where documents go. It is a YAML file
for ` + "`starter crawl -f spec.yaml`" + `; every key is also a flag of
` + "`starter crawl`" + `, and a flag wins over the file. ` + "`starter validate -f spec.yaml`" + `
checks a file, ` + "`starter crawl --dry-run`" + ` prints the effective spec.

` + "```yaml\n" + Sample + "```" + `

Unknown keys, wrong types and impossible values are refused before anything
starts, all at once, each with its line. Lists are lists in YAML; as a flag, give
the flag once for each entry. A duration is ` + "`500ms`, `1s`, `2h30m`" + ` or a number of
seconds. A size is a number of bytes, or ` + "`512KiB`, `8MiB`" + `.

A crawl of the same name goes on with the stored spec. Only the keys marked "may
change" may differ then, and seeds may be added; any other difference is refused
as "name taken by another spec". ` + "`--again`" + ` begins a new generation with any spec.

## Keys
`
