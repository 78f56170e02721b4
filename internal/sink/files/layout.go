package files

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"trawl/internal/sink"
)

const (
	suffix   = ".jsonl"
	redriven = "+redriven" // no topic has a plus in its name
)

var (
	topicName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)
	spanName  = regexp.MustCompile(`^([0-9]{5,})-([0-9]{20})\.jsonl$`)
)

// partition is the folder of one partition of a source.
type partition struct {
	sink.Partition
	name string // in digits, so that names sort
	dir  string
	lock string // a file beside the folder, which may be renamed
}

func partitionOf(index string, p sink.Partition) (partition, error) {
	if !topicName.MatchString(p.Topic) || strings.Trim(p.Topic, ".") == "" || p.Partition < 0 {
		return partition{}, fmt.Errorf("topic %q partition %d: no such thing can be a folder", p.Topic, p.Partition)
	}
	name := fmt.Sprintf("%05d", p.Partition)
	topic := filepath.Join(index, p.Topic)
	return partition{Partition: p, name: name, dir: filepath.Join(topic, name), lock: filepath.Join(topic, "."+name+".lock")}, nil
}

func (p *partition) file(first int64) string {
	return filepath.Join(p.dir, fmt.Sprintf("%s-%020d%s", p.name, first, suffix))
}

// firsts lists the first offsets of the files, in order.
func (p *partition) firsts() ([]int64, error) {
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return nil, err
	}
	list := make([]int64, 0, len(entries))
	for _, e := range entries {
		m := spanName.FindStringSubmatch(e.Name())
		if m == nil || m[1] != p.name {
			continue
		}
		first, err := strconv.ParseInt(m[2], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("file %s: no offset is so large: move it away", filepath.Join(p.dir, e.Name()))
		}
		list = append(list, first)
	}
	slices.Sort(list)
	return list, nil
}

// around gives the file that may cover an offset, and where the one after it
// begins; -1 where there is none.
func (p *partition) around(offset int64) (before, after int64, err error) {
	list, err := p.firsts()
	if err != nil {
		return -1, -1, err
	}
	i, found := slices.BinarySearch(list, offset)
	if found {
		i++
	}
	before, after = -1, -1
	if i > 0 {
		before = list[i-1]
	}
	if i < len(list) {
		after = list[i]
	}
	return before, after, nil
}

// makeFolder makes dir in its parents, the nearest first, and syncs those that
// got something new.
func makeFolder(dir string, parents ...string) error {
	err := os.Mkdir(dir, 0o755)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, fs.ErrNotExist) && len(parents) > 0:
		if err = makeFolder(parents[0], parents[1:]...); err != nil {
			return err
		}
		if err = os.Mkdir(dir, 0o755); errors.Is(err, fs.ErrExist) {
			err = nil
		}
	}
	if err != nil {
		return err
	}
	return syncFolder(filepath.Dir(dir))
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// unique is a name that nobody else has.
func unique() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
