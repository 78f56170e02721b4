package transform_test

import (
	"fmt"
	"strings"
	"testing"
)

// event is a document of about the given size: an id, times, numbers, nested
// objects and sentences, as events have.
func event(size int) string {
	var b strings.Builder
	b.WriteString(`{"id":"0f8fad5b-d9cb-469f-a165-70867728950e","time":"2026-03-04T05:06:07.089Z","level":"info","status":200,"took":12.75,` +
		`"user":{"id":9007199254740993,"name":"Jörg Müller","groups":["admin","dev"]},"ok":true,"parent":null`)
	for i := 0; b.Len() < size-60; i++ {
		fmt.Fprintf(&b, `,"field_%d":{"text":"the quick brown fox jumps over the \"lazy\" dog %d","n":%d}`, i, i, i*1001)
	}
	b.WriteString(`,"end":"2026"}`)
	return b.String()
}

func BenchmarkTransform(b *testing.B) {
	for _, c := range []struct{ name, src string }{
		{"json", `{}`},
		{"jsonID", `{"id":"id","routing_field":"user.name"}`},
		{"plainByDay", `{"format":"plain","plain":{"index":"logs","by":"day","time_field":"time","id_field":"id"}}`},
		{"where", `{"where":"level == \"info\" and status < 500"}`},
		{"fields", `{"fields":[{"rename":{"from":"user.id","to":"user_id"}},{"drop":["parent"]},{"date":{"field":"time","to":"@timestamp"}},{"cast":{"field":"status","type":"string"}}]}`},
		{"expr", `{"fields":[{"expr":{"field":"slow","expression":"took * 1000 > 500"}}]}`},
	} {
		for _, size := range []int{1 << 10, 5 << 10} {
			b.Run(fmt.Sprintf("%s/%dKB", c.name, size>>10), func(b *testing.B) { benchmark(b, c.src, event(size)) })
		}
	}
	b.Run("river/5KB", func(b *testing.B) {
		benchmark(b, `{"format":"river"}`, `{"index":"events","type":"t","id":"x","source":`+event(5<<10)+`}`)
	})
	b.Run("jsonSpaced/5KB", func(b *testing.B) {
		benchmark(b, `{}`, strings.NewReplacer(`,`, `, `, `:`, `: `).Replace(event(5<<10)))
	})
	b.Run("jsonNumbers/5KB", func(b *testing.B) {
		benchmark(b, `{}`, `{"n":[`+strings.Repeat("12.5,", 1000)+`0]}`)
	})
}

func benchmark(b *testing.B, src, value string) {
	f := newFunc(b, src)
	r := rec("key", value)
	b.SetBytes(int64(len(value)))
	b.ReportAllocs()
	for b.Loop() {
		if _, ok, err := f(r, "events", 3); err != nil || !ok {
			b.Fatal(ok, err)
		}
	}
}
