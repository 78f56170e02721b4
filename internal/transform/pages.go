package transform

import (
	"trawl/internal/extract"
	"trawl/internal/ingest"
	"trawl/internal/kafkalog"
	"trawl/internal/page"
	"trawl/internal/sink"
	"trawl/internal/spec"
	"trawl/internal/transform/rawjson"
)

// Pages makes writes of page records: a document with the named fields (none
// means all), or a delete for a page that is gone.
func Pages(names []string) (Func, error) {
	extractor, err := extract.New(names)
	if err != nil {
		return nil, err
	}
	return func(rec *kafkalog.Record, _ string, _ int) (sink.Op, bool, error) {
		var p page.Page
		if err := page.Decode(rec.Value, &p); err != nil {
			return sink.Op{}, false, &ingest.RecordError{Class: ingest.InvalidFormat, Err: err}
		}
		doc, kind, err := extractor.Page(&p)
		if err != nil {
			return sink.Op{}, false, &ingest.RecordError{Class: ingest.TransformFailed, Err: err}
		}
		if kind == extract.NoDocument {
			return sink.Op{}, false, nil
		}
		return sink.Op{ID: extract.ID(p.URL), Version: extract.Version(&p), Doc: doc, Delete: kind == extract.Delete}, true, nil
	}, nil
}

// newPages is the format pages of a load: ids and versions are those of the
// crawl, the documents are changed as any other's. A delete is not asked where.
func newPages(source spec.LoadSource) (Func, error) {
	pages, err := Pages(nil)
	if err != nil {
		return nil, err
	}
	c, err := newChange(source)
	if err != nil {
		return nil, err
	}
	if c.where == nil && c.routing == "" && c.plan.Empty() {
		return pages, nil
	}
	return func(rec *kafkalog.Record, topic string, partition int) (sink.Op, bool, error) {
		op, ok, err := pages(rec, topic, partition)
		switch {
		case err != nil || !ok:
			return op, ok, err
		case op.Delete && c.routing != "":
			return sink.Op{}, false, fail(ingest.InvalidEvent, "a delete of %q: a page that is gone names no routing, so its document cannot be found", op.ID)
		case op.Delete:
			return op, true, nil
		}
		doc := rawjson.Part(op.Doc)
		if keep, err := c.keeps(doc); err != nil || !keep {
			return sink.Op{}, false, err
		}
		if err := c.apply(doc, &op); err != nil {
			return sink.Op{}, false, err
		}
		return op, true, nil
	}, nil
}
