package spec

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds on the values of a load.
const (
	maxSources    = 100
	maxPartitions = 1000 // in a list
	maxFieldOps   = 200
	maxFieldPath  = 256
	maxExpression = 4096
	minRecord     = 1 << 10
	maxRecord     = 64 << 20
	maxBatchCount = 100_000
	maxBatchAge   = Duration(time.Minute)
	maxRate       = 1_000_000
)

var (
	topicForm  = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)
	targetForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,127}$`)
	// generationForm is a generation of a crawl: a load of such a name would have
	// topics that look like a crawl's.
	generationForm = regexp.MustCompile(`^[0-9]{8}t[0-9]{6}$`)
)

// fill puts the defaults in place of what nobody stated.
func (s *LoadSpec) fill() {
	fillLoad(s, "sink.kind", &s.Sink.Kind, SinkSQLite)
	fillLoad(s, "sink.index", &s.Sink.Index, s.Name)
	fillLoad(s, "limits.record", &s.Limits.Record, 1<<20)
	fillLoad(s, "limits.batch_bytes", &s.Limits.BatchBytes, 5<<20)
	fillLoad(s, "limits.batch_count", &s.Limits.BatchCount, 5000)
	fillLoad(s, "limits.batch_age", &s.Limits.BatchAge, Duration(time.Second))
	fillLoad(s, "read", &s.Read, ReadCommitted)
	for i := range s.Sources {
		c, at := &s.Sources[i], fmt.Sprintf("sources[%d].", i)
		fillLoad(s, at+"format", &c.Format, FormatJSON)
		fillLoad(s, at+"version", &c.Version, VersionOffset)
		if !s.from.has(at + "start") {
			c.Start.At = StartEarliest
		}
		c.Start.settle(s.from, at+"start")
		if c.Format == FormatPlain {
			fillLoad(s, at+"plain.by", &c.Plain.By, ByNone)
			fillLoad(s, at+"plain.index", &c.Plain.Index, s.Sink.Index)
			if c.Plain.TimeField != "" {
				fillLoad(s, at+"plain.time_format", &c.Plain.TimeFormat, TimeISO8601)
			}
		}
		for j := range c.Fields {
			if d := c.Fields[j].Date; d != nil {
				fillLoad(s, fmt.Sprintf("%sfields[%d].date.format", at, j), &d.Format, TimeISO8601)
			}
		}
	}
}

// settle tells the forms of a start apart by what was stated.
func (l *LoadStart) settle(from origins, at string) {
	offset, moment := from.has(at+".offset"), from.has(at+".time")
	switch {
	case offset && !moment:
		l.At = StartOffset
	case moment && !offset:
		l.At = StartTime
	}
}

func fillLoad[T comparable](s *LoadSpec, key string, at *T, def T) {
	var zero T
	if *at == zero && !s.from.has(key) {
		*at = def
	}
}

// loadValidator collects what is impossible about the values of a load.
type loadValidator struct {
	s  *LoadSpec
	ps []Problem
}

func (s *LoadSpec) validate() []Problem {
	v := &loadValidator{s: s}
	v.names()
	v.sources()
	v.sink()
	v.limits()
	v.oneOf("read", s.Read, ReadCommitted, ReadUncommitted)
	if len(v.ps) == 0 {
		v.whole()
	}
	return v.ps
}

func (v *loadValidator) refuse(key, value, what, remedy string) {
	v.ps = append(v.ps, v.s.problem(key, value, what, remedy))
}

func (v *loadValidator) oneOf(key, value string, choices ...string) {
	if !slices.Contains(choices, value) {
		v.refuse(key, value, "is none of its values", "choose "+strings.Join(choices, " or "))
	}
}

func (v *loadValidator) between(key string, value, least, most int64, text func(int64) string) {
	if value < least || value > most {
		v.refuse(key, text(value), fmt.Sprintf("is not between %s and %s", text(least), text(most)), "leave it out for its default")
	}
}

func decimal(n int64) string { return fmt.Sprint(n) }

func (v *loadValidator) names() {
	switch {
	case v.s.Name == "":
		v.refuse("name", "", "is missing", "give the load a name, for example name: orders")
	case !nameForm.MatchString(v.s.Name):
		v.refuse("name", v.s.Name, "is no name", "use a-z, 0-9 and dashes, at most 63, beginning with a letter or digit")
	case generationForm.MatchString(v.s.Name):
		v.refuse("name", v.s.Name, "looks like the generation of a crawl", "choose another name")
	}
}

func (v *loadValidator) sources() {
	n := len(v.s.Sources)
	if n == 0 || n > maxSources {
		v.refuse("sources", "", fmt.Sprintf("there are %d sources", n), fmt.Sprintf("name 1 to %d topics, for example sources: [{topic: events}]", maxSources))
	}
	for i := range v.s.Sources {
		at := fmt.Sprintf("sources[%d]", i)
		v.topic(at, i)
		v.span(at, &v.s.Sources[i])
		v.format(at, &v.s.Sources[i])
		v.fields(at, &v.s.Sources[i])
	}
}

// topic: a partition may be read once, so that its position is one.
func (v *loadValidator) topic(at string, i int) {
	c := &v.s.Sources[i]
	switch {
	case c.Topic == "":
		v.refuse(at+".topic", "", "is missing", "name the topic to load, for example topic: events")
	case !topicForm.MatchString(c.Topic) || strings.Trim(c.Topic, ".") == "":
		v.refuse(at+".topic", c.Topic, "is no name of a topic", "Kafka allows letters, digits, dots, dashes and underscores, at most 249")
	}
	seen := map[int]bool{}
	for j, p := range c.Partitions {
		key := fmt.Sprintf("%s.partitions[%d]", at, j)
		switch {
		case p < 0 || p > 1_000_000:
			v.refuse(key, decimal(int64(p)), "is no partition", "partitions are counted from 0")
		case seen[p]:
			v.refuse(key, decimal(int64(p)), "is there twice", "keep one of them")
		}
		seen[p] = true
	}
	if len(c.Partitions) > maxPartitions {
		v.refuse(at+".partitions", "", fmt.Sprintf("lists %d partitions", len(c.Partitions)), fmt.Sprintf("at most %d; leave it out for all", maxPartitions))
	}
	for j := range i {
		if o := &v.s.Sources[j]; o.Topic == c.Topic && overlap(o.Partitions, c.Partitions) {
			v.refuse(at+".topic", c.Topic, fmt.Sprintf("is read by sources[%d], too", j), "let each partition be read by one source")
			return
		}
	}
}

// overlap: an empty list means all partitions.
func overlap(a, b []int) bool {
	return len(a) == 0 || len(b) == 0 || slices.ContainsFunc(a, func(p int) bool { return slices.Contains(b, p) })
}

func (v *loadValidator) span(at string, c *LoadSource) {
	stated := v.s.from.has(at+".start.offset") && v.s.from.has(at+".start.time")
	switch st := c.Start; {
	case stated:
		v.refuse(at+".start", "", "has an offset and a time", "keep one of them")
	case !slices.Contains([]string{StartEarliest, StartLatest, StartOffset, StartTime}, st.At) ||
		st.At == StartOffset && !v.s.from.has(at+".start.offset") || st.At == StartTime && !v.s.from.has(at+".start.time"):
		v.refuse(at+".start", st.At, "is no start", "write earliest, latest, {offset: 1000} or {time: 2026-01-31T00:00:00Z}")
	case st.Offset < 0:
		v.refuse(at+".start.offset", decimal(st.Offset), "is no offset", "offsets are counted from 0")
	case st.At == StartTime && (st.Time.Year() < 1970 || st.Time.Year() > 9999):
		v.refuse(at+".start.time", st.Time.Format(time.RFC3339), "is out of range", "write a time between 1970 and 9999")
	}
	if _, _, err := c.UntilTime(); err != nil {
		v.refuse(at+".until", c.Until, "is neither end nor a time", "write end, a time such as 2026-01-31T00:00:00Z, or leave it out to go on for ever")
	}
}

// UntilTime is the time of Until, if it is one.
func (c *LoadSource) UntilTime() (t time.Time, ok bool, err error) {
	if c.Until == "" || c.Until == UntilEnd {
		return t, false, nil
	}
	if t, err = time.Parse(time.RFC3339Nano, c.Until); err != nil {
		return t, false, err
	}
	if t.Year() < 1970 || t.Year() > 9999 {
		return t, false, fmt.Errorf("year %d", t.Year())
	}
	return t.UTC(), true, nil
}

func (v *loadValidator) format(at string, c *LoadSource) {
	v.oneOf(at+".format", c.Format, FormatJSON, FormatRiver, FormatPlain, FormatPages)
	v.oneOf(at+".version", c.Version, VersionOffset, VersionTimestamp)
	if c.Format != FormatJSON && c.ID != "" {
		remedy := "leave it out"
		if c.Format == FormatPlain {
			remedy = "use plain.id_field"
		}
		v.refuse(at+".id", c.ID, "belongs to format json, not "+c.Format, remedy)
	}
	v.path(at+".id", c.ID, true)
	v.path(at+".routing_field", c.RoutingField, true)
	v.text(at+".where", c.Where, maxExpression)
	if c.Format == FormatPlain {
		v.plain(at+".plain", &c.Plain)
	} else if c.Plain != (LoadPlain{}) {
		v.refuse(at+".plain", "", "belongs to format plain, not "+c.Format, "write format: plain, or leave it out")
	}
	if v.s.Sink.Kind == SinkSQLite {
		v.embedded(at, c)
	}
	if v.s.Sink.Kind == SinkFiles && c.RoutingField != "" {
		v.refuse(at+".routing_field", c.RoutingField, "means nothing to files", "use sink.kind elastic, or leave it out")
	}
}

// embedded: SQLite has one index for each load, without routing.
func (v *loadValidator) embedded(at string, c *LoadSource) {
	const remedy = "use sink.kind elastic, or leave it out"
	if c.RoutingField != "" {
		v.refuse(at+".routing_field", c.RoutingField, "means nothing to SQLite", remedy)
	}
	if c.Format == FormatPlain && c.Plain.By != ByNone {
		v.refuse(at+".plain.by", c.Plain.By, "makes several indexes, SQLite has one", remedy)
	}
	if c.Format == FormatPlain && c.Plain.Index != v.s.Sink.Index {
		v.refuse(at+".plain.index", c.Plain.Index, "is not sink.index, and SQLite has one index", remedy)
	}
}

func (v *loadValidator) plain(at string, p *LoadPlain) {
	v.oneOf(at+".by", p.By, ByNone, ByDay, ByMonth, ByYear)
	v.path(at+".id_field", p.IDField, true)
	v.path(at+".time_field", p.TimeField, true)
	if !targetForm.MatchString(p.Index) {
		v.refuse(at+".index", p.Index, "is no index name", "use a-z, 0-9, dots, dashes and underscores, at most 128, beginning with a letter or digit")
	}
	switch {
	case p.By == ByNone && p.TimeField != "":
		v.refuse(at+".time_field", p.TimeField, "is not needed: there is one index for all times", "write by: day, month or year, or leave it out")
	case p.TimeField == "" && p.TimeFormat != "":
		v.refuse(at+".time_format", p.TimeFormat, "has no field to read", "name plain.time_field, or leave it out for the record's Kafka timestamp")
	}
	v.timeFormat(at+".time_format", p.TimeFormat)
}

// timeFormat: a layout has to hold at least the day, or times would be wrong by
// centuries and nobody would notice.
func (v *loadValidator) timeFormat(key, layout string) {
	if layout == "" || layout == TimeISO8601 || layout == TimeMillis {
		return
	}
	day := time.Date(2031, 10, 23, 0, 0, 0, 0, time.UTC)
	t, err := time.Parse(layout, day.Format(layout))
	if err != nil || t.UTC().Format(time.DateOnly) != day.Format(time.DateOnly) || len(layout) > maxFieldPath {
		v.refuse(key, layout, "is no form of a time with its day", "write iso8601, millis, or a layout such as 02/Jan/2006:15:04:05 -0700")
	}
}

func (v *loadValidator) path(key, path string, mayBeEmpty bool) {
	switch {
	case path == "" && mayBeEmpty:
	case path == "":
		v.refuse(key, "", "is missing", "name the field")
	case len(path) > maxFieldPath || !utf8.ValidString(path) || slices.Contains(strings.Split(path, "."), ""):
		v.refuse(key, path, "is no path of a field", fmt.Sprintf("write names with dots between them, for example customer.name, at most %d bytes", maxFieldPath))
	}
}

func (v *loadValidator) text(key, value string, most int) {
	if len(value) > most {
		v.refuse(key, value, fmt.Sprintf("has %d bytes", len(value)), fmt.Sprintf("at most %d", most))
	}
}

func (v *loadValidator) fields(at string, c *LoadSource) {
	if len(c.Fields) > maxFieldOps {
		v.refuse(at+".fields", "", fmt.Sprintf("lists %d operations", len(c.Fields)), fmt.Sprintf("at most %d", maxFieldOps))
		return
	}
	for i := range c.Fields {
		v.operation(fmt.Sprintf("%s.fields[%d]", at, i), &c.Fields[i])
	}
}

func (v *loadValidator) operation(at string, op *FieldOp) {
	n := 0
	for _, set := range []bool{op.Rename != nil, op.Drop != nil, op.Set != nil, op.Copy != nil, op.Date != nil, op.Cast != nil, op.Expr != nil} {
		if set {
			n++
		}
	}
	if n != 1 {
		v.refuse(at, "", fmt.Sprintf("holds %d operations", n), "write exactly one of rename, drop, set, copy, date, cast, expr in each entry of the list")
		return
	}
	switch {
	case op.Rename != nil:
		v.path(at+".rename.from", op.Rename.From, false)
		v.path(at+".rename.to", op.Rename.To, false)
	case op.Copy != nil:
		v.path(at+".copy.from", op.Copy.From, false)
		v.path(at+".copy.to", op.Copy.To, false)
	case op.Set != nil:
		v.path(at+".set.field", op.Set.Field, false)
		if op.Set.Value == nil {
			v.refuse(at+".set.value", "", "is missing", "give the value, null for none")
		}
	case op.Date != nil:
		v.path(at+".date.field", op.Date.Field, false)
		v.path(at+".date.to", op.Date.To, true)
		v.timeFormat(at+".date.format", op.Date.Format)
	case op.Cast != nil:
		v.path(at+".cast.field", op.Cast.Field, false)
		v.oneOf(at+".cast.type", op.Cast.Type, CastString, CastInt, CastFloat, CastBool)
	case op.Expr != nil:
		v.path(at+".expr.field", op.Expr.Field, false)
		if op.Expr.Expression == "" {
			v.refuse(at+".expr.expression", "", "is missing", "write an expression over the document, for example price * amount")
		}
		v.text(at+".expr.expression", op.Expr.Expression, maxExpression)
	default:
		if len(op.Drop) == 0 {
			v.refuse(at+".drop", "", "is empty", "name the fields to remove")
		}
		for i, f := range op.Drop {
			v.path(fmt.Sprintf("%s.drop[%d]", at, i), f, false)
		}
	}
}

func (v *loadValidator) sink() {
	k := &v.s.Sink
	v.oneOf("sink.kind", k.Kind, SinkSQLite, SinkElastic, SinkFiles)
	if (k.Index != "" || v.s.from.has("sink.index")) && !targetForm.MatchString(k.Index) {
		v.refuse("sink.index", k.Index, "is no name of an index", "use a-z, 0-9, dots, dashes and underscores, at most 128, beginning with a letter or digit")
	}
	v.text("sink.pipeline", k.Pipeline, maxFieldPath)
	means := map[string]string{SinkSQLite: "means nothing to SQLite", SinkFiles: "means nothing to files"}[k.Kind]
	if means == "" {
		return
	}
	for key, stated := range map[string]bool{"sink.data_stream": k.DataStream, "sink.pipeline": k.Pipeline != "", "sink.template": k.Template != nil} {
		if stated {
			v.refuse(key, "", means, "use sink.kind elastic, or leave it out")
		}
	}
}

func (v *loadValidator) limits() {
	l := &v.s.Limits
	v.between("limits.record", int64(l.Record), minRecord, maxRecord, FormatSize)
	v.between("limits.batch_bytes", int64(l.BatchBytes), minRecord, maxRecord, FormatSize)
	v.between("limits.batch_count", int64(l.BatchCount), 1, maxBatchCount, decimal)
	if l.BatchAge < 0 || l.BatchAge > maxBatchAge {
		v.refuse("limits.batch_age", l.BatchAge.String(), "is not between 0s and 1m", "the default is 1s")
	}
	if !(l.Rate == 0 || l.Rate >= MinLoadRate && l.Rate <= maxRate) {
		v.refuse("limits.rate", fmt.Sprint(l.Rate), fmt.Sprintf("is not between %v and %d", MinLoadRate, maxRate), "records a second; 0 means no limit")
	}
}

// MinLoadRate is the slowest rate of a load: a record in a minute and a half.
const MinLoadRate = 0.01

func (v *loadValidator) whole() {
	b, err := v.s.Encode()
	switch {
	case err != nil:
		v.refuse("", "", "the spec cannot be encoded: "+err.Error(), "")
	case len(b) > MaxLoadEncoded:
		v.refuse("", "", fmt.Sprintf("the spec has %d bytes", len(b)), fmt.Sprintf("at most %d; split it into several loads, or put the template on the server", MaxLoadEncoded))
	}
}
