package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/segmentio/kafka-go"

	"trawl/internal/sink"
	"trawl/internal/sink/elastic"
)

const (
	simpleLeg = "simple"
	bulkPath  = "/_bulk?filter_path=took,errors,items.*.error"
)

func (b *bench) elasticLegs() []leg {
	return []leg{
		{"trawl", b.trawl, nil},
		{simpleLeg, b.simple, nil},
		{"memory", b.memory, b.keep},
	}
}

// index makes an empty index; drop removes it.
func (b *bench) index(ctx context.Context) (name string, drop func(), err error) {
	b.seq++
	name = fmt.Sprintf("benchload-%d-%d", b.size.Bytes, b.seq)
	_ = b.ask(ctx, "DELETE", "/"+name, "") // of an earlier run
	err = b.ask(ctx, "PUT", "/"+name, `{"settings":{"index":{"number_of_shards":1,"number_of_replicas":0,"refresh_interval":"30s"}},
		"mappings":{"dynamic":false,"properties":{"url":{"type":"keyword"},"fetched_at":{"type":"date"},"status":{"type":"integer"},
		"link_count":{"type":"integer"},"title":{"type":"text"},"text":{"type":"text"}}}}`)
	return name, func() { _ = b.ask(context.WithoutCancel(ctx), "DELETE", "/"+name, "") }, err
}

func (b *bench) ask(ctx context.Context, method, path, body string) error {
	req, err := http.NewRequestWithContext(ctx, method, b.cfg.Elastic+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode > 299 {
		err = fmt.Errorf("%s %s: %d %s", method, path, res.StatusCode, answer)
	}
	return err
}

// trawl is the loader as a worker runs it, one machine per partition.
func (b *bench) trawl(ctx context.Context) (int, error) {
	name, drop, err := b.index(ctx)
	if err != nil {
		return 0, err
	}
	defer drop()
	admin, err := elastic.New(elastic.Config{URL: b.cfg.Elastic})
	if err != nil {
		return 0, err
	}
	defer func() { _ = admin.Close() }()
	to, err := admin.OpenTarget(ctx, sink.Target{Name: name})
	if err != nil {
		return 0, err
	}
	return b.machines(ctx, to)
}

// simple is one goroutine per partition: read messages up to a batch, write
// them as one bulk with ids and versions, read the answer, go on.
func (b *bench) simple(ctx context.Context) (int, error) {
	name, drop, err := b.index(ctx)
	if err != nil {
		return 0, err
	}
	defer drop()
	return b.parallel(func(p int) (int, error) {
		conn, err := kafka.DialLeader(ctx, "tcp", b.cfg.Brokers[0], b.topic, p)
		if err != nil {
			return 0, err
		}
		defer func() { _ = conn.Close() }()
		done := 0
		err = b.read(conn, p, func(body []byte, n int) error {
			done += n
			return b.post(ctx, name, body)
		})
		return done, err
	})
}

// read gives the bulks of a partition.
func (b *bench) read(conn *kafka.Conn, p int, bulk func(body []byte, n int) error) error {
	var body bytes.Buffer
	n, size := 0, 0
	for at := int64(0); at < b.ends[p]; {
		if _, err := conn.Seek(at, kafka.SeekAbsolute); err != nil {
			return err
		}
		batch := conn.ReadBatch(1, 4<<20)
		for {
			m, err := batch.ReadMessage()
			if err != nil {
				break // the end of this fetch; what is left is fetched next
			}
			at = m.Offset + 1
			fmt.Fprintf(&body, `{"index":{"_id":"%s-%d-%d","version":%d,"version_type":"external_gte"}}`+"\n", b.topic, p, m.Offset, m.Offset)
			body.Write(m.Value)
			body.WriteByte('\n')
			n, size = n+1, size+len(m.Value)
			if n == b.cfg.BatchCount || size >= b.cfg.BatchBytes || at == b.ends[p] {
				if err := bulk(body.Bytes(), n); err != nil {
					return err
				}
				body.Reset()
				n, size = 0, 0
			}
		}
		if err := batch.Close(); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrShortBuffer) {
			return err
		}
	}
	return nil
}

func (b *bench) post(ctx context.Context, index string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, "POST", b.cfg.Elastic+"/"+index+bulkPath, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var answer struct{ Errors bool }
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK || answer.Errors {
		return fmt.Errorf("%w: status %d", errMissing, res.StatusCode)
	}
	_, err = io.Copy(io.Discard, res.Body)
	return err
}

// perBulk is how many documents a bulk of the loaders has.
func (b *bench) perBulk() int { return min(b.cfg.BatchCount, b.cfg.BatchBytes/b.size.Bytes+1) }

// numbered stands in the ids of kept bulks for the number of the bulk.
const numbered = "#########"

// keep makes the bulks of the ceiling. Where all would not fit into memory a
// part is posted again, under other ids; an index does not care.
func (b *bench) keep() (free func()) {
	const most = 128 << 20
	for size := 0; size < most && len(b.kept)*b.perBulk() < b.size.Count; {
		var body bytes.Buffer
		for i := range b.perBulk() {
			fmt.Fprintf(&body, `{"index":{"_id":"%s-%s-%d","version":%d,"version_type":"external_gte"}}`+"\n", b.topic, numbered, i, i)
			body.Write(document(len(b.kept)*b.perBulk()+i, b.size.Bytes))
			body.WriteByte('\n')
		}
		b.kept = append(b.kept, body.Bytes())
		size += body.Len()
	}
	return func() { b.kept = nil }
}

// memory posts such bulks: what the index takes.
func (b *bench) memory(ctx context.Context) (int, error) {
	name, drop, err := b.index(ctx)
	if err != nil {
		return 0, err
	}
	defer drop()
	per := b.perBulk()
	return b.parallel(func(p int) (int, error) {
		done := 0
		for at := p; done < int(b.ends[p]); at += len(b.ends) {
			// Ids have to differ, or the index would replace documents.
			body := bytes.ReplaceAll(b.kept[at%len(b.kept)], []byte(numbered), fmt.Appendf(nil, "%09d", at))
			n := min(per, int(b.ends[p])-done)
			if n < per {
				lines := bytes.SplitAfterN(body, []byte("\n"), 2*n+1)
				body = bytes.Join(lines[:2*n], nil)
			}
			if err := b.post(ctx, name, body); err != nil {
				return done, err
			}
			done += n
		}
		return done, nil
	})
}

// parallel runs f for every partition and adds up.
func (b *bench) parallel(f func(p int) (int, error)) (int, error) {
	counts, errs := make([]int, len(b.ends)), make([]error, len(b.ends))
	var wg sync.WaitGroup
	for p := range b.ends {
		wg.Go(func() { counts[p], errs[p] = f(p) })
	}
	wg.Wait()
	n := 0
	for _, c := range counts {
		n += c
	}
	return n, errors.Join(errs...)
}
