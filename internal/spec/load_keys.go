package spec

import (
	"slices"
	"strings"
)

// LoadKey is one key of a load spec.
type LoadKey struct {
	Path    string // "sources.topic": of each source
	Kind    string
	Default string // for people
	Doc     string // one sentence
	Example string // YAML
}

// LoadKeys is the table of all keys, in the order of the reference.
func LoadKeys() []LoadKey { return slices.Clone(loadKeys) }

var loadKeys = []LoadKey{
	{"name", "text", "none: it is required", "Name of the load: a-z, 0-9 and dashes, at most 63 characters. Its workflow is `load/<name>`, its errors topic `<prefix>.load.<name>.errors`.", "orders"},
	{"sources", "list of sources", "none: at least one", "The topics to load, at most 100.", "[{topic: events}]"},
	{"sources.topic", "text", "none: it is required", "Name of the topic, as Kafka has it.", "events"},
	{"sources.partitions", "list of numbers", "all, and new ones within a minute", "Partitions to load.", "[0, 3]"},
	{"sources.start", "earliest, latest, {offset: N} or {time: RFC 3339}", "earliest", "Where a partition begins that has no position yet.", "{time: 2026-01-31T00:00:00Z}"},
	{"sources.start.offset", "number", "none", "The first offset to load.", "1000"},
	{"sources.start.time", "time", "none", "The first record at or after this time is the first to load.", "2026-01-31T00:00:00Z"},
	{"sources.until", "text", "empty: for ever", "Where the source is done: `end` (the log ends at the start of the run) or a time in RFC 3339. When all sources are done the load ends.", "end"},
	{"sources.format", "text", "json", "What the records are: `json` (a JSON object is the document), `river` (index, id and source in each record), `plain` (a JSON object, its index chosen by a time) or `pages` (page records of a crawl).", "plain"},
	{"sources.plain", "keys", "none", "Of format plain: which index and id a document gets.", "{index: logs, by: day}"},
	{"sources.plain.index", "text", "sink.index", "Index of the documents, before what `by` appends.", "logs"},
	{"sources.plain.by", "text", "none", "One index for each `day`, `month` or `year`, or for all: `none`.", "day"},
	{"sources.plain.time_field", "text", "empty: the record's Kafka timestamp", "Field with the time that `by` goes by.", "created.at"},
	{"sources.plain.time_format", "text", "iso8601", "Form of that field: `iso8601`, `millis`, or a layout of Go's package time.", "millis"},
	{"sources.plain.id_field", "text", "empty: topic-partition-offset", "Field with the document's id; `key` is the record's key.", "order.id"},
	{"sources.id", "text", "empty: topic-partition-offset", "Of format json: field with the document's id; `key` is the record's key.", "key"},
	{"sources.version", "text", "offset", "Version of a document: the record's `offset`, or its `timestamp` in milliseconds. A lower one never replaces a higher one.", "timestamp"},
	{"sources.routing_field", "text", "empty: the id", "Field whose value chooses the shard.", "customer"},
	{"sources.where", "text", "empty: every record", "Boolean expression over the document; false means that the record is no document.", `type == "order"`},
	{"sources.fields", "list of operations", "none", "What is done to each document, in this order: rename, drop, set, copy, date, cast, expr.", "[{drop: [password]}]"},
	{"sources.fields.rename", "keys", "none", "Moves a field.", "{from: a, to: b}"},
	{"sources.fields.rename.from", "text", "none: it is required", "Field to move.", "a"},
	{"sources.fields.rename.to", "text", "none: it is required", "Its new name.", "b"},
	{"sources.fields.drop", "list of text", "none", "Removes fields.", "[password, session.token]"},
	{"sources.fields.set", "keys", "none", "Gives a field a fixed value.", "{field: source, value: shop}"},
	{"sources.fields.set.field", "text", "none: it is required", "Field to set.", "source"},
	{"sources.fields.set.value", "any value", "none: it is required", "Its value.", "shop"},
	{"sources.fields.copy", "keys", "none", "Copies a field.", "{from: a, to: b}"},
	{"sources.fields.copy.from", "text", "none: it is required", "Field to copy.", "a"},
	{"sources.fields.copy.to", "text", "none: it is required", "Name of the copy.", "b"},
	{"sources.fields.date", "keys", "none", "Reads a time and writes it in RFC 3339, in UTC.", "{field: at, format: millis}"},
	{"sources.fields.date.field", "text", "none: it is required", "Field with the time.", "at"},
	{"sources.fields.date.format", "text", "iso8601", "Form of the field: `iso8601`, `millis`, or a layout of Go's package time.", "02/Jan/2006:15:04:05 -0700"},
	{"sources.fields.date.to", "text", "the field itself", "Field to write.", "created_at"},
	{"sources.fields.cast", "keys", "none", "Makes a value one of a type.", "{field: price, type: float}"},
	{"sources.fields.cast.field", "text", "none: it is required", "Field to change.", "price"},
	{"sources.fields.cast.type", "text", "none: it is required", "`string`, `int`, `float` or `bool`.", "float"},
	{"sources.fields.expr", "keys", "none", "Gives a field the value of an expression.", "{field: total, expression: price * amount}"},
	{"sources.fields.expr.field", "text", "none: it is required", "Field to write.", "total"},
	{"sources.fields.expr.expression", "text", "none: it is required", "The expression, over the document.", "price * amount"},
	{"sink", "keys", "SQLite", "Where documents go.", "{kind: elastic, index: orders}"},
	{"sink.kind", "text", "sqlite", "`sqlite`, `elastic` (Elasticsearch or OpenSearch, address by TRAWL_ELASTIC_URL) or `files` (JSONL files in the worker's data directory).", "elastic"},
	{"sink.index", "text", "the load's name", "Index, alias or data stream of the documents that name none; made if nothing has the name.", "orders"},
	{"sink.data_stream", "true or false", "false", "The target is a data stream: documents are only created, never replaced.", "true"},
	{"sink.pipeline", "text", "empty: none", "Ingest pipeline of the server.", "geoip"},
	{"sink.template", "text", "empty: none", "File with an index template in JSON, relative to the spec; put before anything is loaded.", "template.json"},
	{"limits", "keys", "see there", "Bounds of what is held and sent.", "{rate: 1000}"},
	{"limits.record", "size", "1MiB", "Largest record or document; a larger one goes to the errors topic (class 4). 1KiB to 64MiB.", "4MiB"},
	{"limits.batch_bytes", "size", "5MiB", "Documents in one write, in bytes. 1KiB to 64MiB.", "10MiB"},
	{"limits.batch_count", "number", "5000", "Records in one write. 1 to 100000.", "1000"},
	{"limits.batch_age", "duration", "1s", "How long a write is gathered while the log has more. Up to 1m.", "200ms"},
	{"limits.rate", "number", "0: no limit", "Records a second, divided evenly among the partitions that are not done.", "500"},
	{"read", "text", "committed", "`committed` leaves out records of aborted transactions, `uncommitted` loads them, too.", "uncommitted"},
}

func loadKeyOf(path string) (LoadKey, bool) {
	i := slices.IndexFunc(loadKeys, func(k LoadKey) bool { return k.Path == path })
	if i < 0 {
		return LoadKey{}, false
	}
	return loadKeys[i], true
}

// withoutItems makes sources[2].topic the path of the table, sources.topic.
func withoutItems(path string) string {
	var b strings.Builder
	inside := false
	for _, r := range path {
		switch {
		case r == '[':
			inside = true
		case r == ']':
			inside = false
		case !inside:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// LoadReference is the part of docs/load.md about keys. A test compares.
func LoadReference() string {
	var b strings.Builder
	b.WriteString("| key | value | default | what it says | example |\n| --- | --- | --- | --- | --- |\n")
	for _, k := range loadKeys {
		path := strings.ReplaceAll(strings.ReplaceAll(k.Path, "sources.", "sources[]."), "fields.", "fields[].")
		b.WriteString("| `" + path + "` | " + k.Kind + " | " + k.Default + " | " + k.Doc + " | `" + strings.ReplaceAll(k.Example, "|", `\|`) + "` |\n")
	}
	return b.String()
}
