package redrive

import (
	"context"
	"math"

	"github.com/cespare/xxhash/v2"

	"trawl/internal/ingest"
	"trawl/internal/kafkalog"
)

// maxIDs bounds the ids that an Index holds at a time: about 50 MB.
const maxIDs = 1 << 20

// Index knows, for the failures of a window of one partition of an errors
// topic, which record of each id is the last and what became of it. A window
// holds at most so many distinct ids; what does not fit is for the next window.
// Ids are known by 64 bits of their hash: among a million, two are the same
// with a probability of 3 in 10^8, and one of them would then go unseen.
type Index struct {
	from, to int64 // the window
	end      int64 // failures from here on are no concern of whoever asks
	folded   int64 // all before is known
	redrive  string
	limit    int
	ids      map[uint64]known
}

// known is the last failure of an id before the end, and what came after it.
type known struct {
	at       int64
	status   Status
	redrives uint8 // the most that any of its records has
	mine     bool  // stated by the redrive that asks
}

// NewIndex begins a window at from. end is where the log ended when whoever
// asks began; failures stated later are not theirs, resolutions are. redrive
// names the redrive that asks, "" for others.
func NewIndex(from, end int64, redrive string) *Index {
	return &Index{from: from, to: end, end: end, folded: from, redrive: redrive, limit: maxIDs, ids: map[uint64]known{}}
}

// Window gives the range of offsets that the index knows the failures of. Its
// end is final after the first Extend.
func (x *Index) Window() (from, to int64) { return x.from, x.to }

// Extend folds the log from where the last call ended to its end of now.
func (x *Index) Extend(ctx context.Context, log Log, topic string, partition int) error {
	first, end, err := log.Bounds(ctx, topic, partition)
	if err != nil {
		return err
	}
	next, err := log.ReadRange(ctx, topic, partition, max(x.folded, first), end, func(r kafkalog.Record) error {
		x.fold(&r)
		return nil
	})
	x.folded = max(x.folded, next)
	return err
}

func (x *Index) fold(r *kafkalog.Record) {
	f, ok := ingest.ParseFailure(r)
	if !ok {
		return
	}
	key := xxhash.Sum64String(f.ID)
	k, seen := x.ids[key]
	switch {
	case !seen && (!f.Opens() || r.Offset >= x.to):
		return
	case !seen && len(x.ids) >= x.limit:
		x.to = r.Offset
		return
	}
	k.mine = f.Redrive != "" && f.Redrive == x.redrive
	k.status = statusOf(&f)
	k.redrives = max(k.redrives, uint8(min(f.Redrives, math.MaxUint8)))
	switch {
	case !f.Opens():
	case r.Offset < x.end:
		k.at = r.Offset
	case k.mine:
		k.status = FailedAgain
	}
	x.ids[key] = k
}

// last tells whether a failure at an offset is the last of its id, and then
// what became of it.
func (x *Index) last(id string, offset int64) (known, bool) {
	k, ok := x.ids[xxhash.Sum64String(id)]
	return k, ok && k.at == offset
}
