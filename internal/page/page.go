// Package page owns the page record: one raw response as it stands in the
// pages topic, its wire form and the decoding of its body's content coding.
// It refuses to interpret a body: charset, links and fields are others' work.
package page

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// MaxHeader is the greatest size in bytes of a page's header: names and values.
const MaxHeader = 16 << 10

// Bounds of what Decode accepts: no honest writer exceeds them.
const (
	maxURL     = 8 << 10
	maxText    = 4 << 10
	maxHeaders = 1000
	maxBody    = 1 << 30
)

// Header is one name/value pair of a response.
type Header struct{ Name, Value string }

// Page is one raw response. The key of its record is the URL; its version is
// When in milliseconds.
type Page struct {
	URL             string // canonical
	Round           int
	Status          int
	Header          []Header // selected, in order; at most MaxHeader bytes are written
	Body            []byte   // as received, in ContentEncoding
	ContentEncoding string   // "", "gzip", "deflate", "br"; what Body is stored in
	ContentType     string   // as the site said it
	When            time.Time
	Duration        time.Duration // from the request's start to the body's end
	Redirect        string        // target, canonical, if the answer is one
	Cut             bool          // the body was longer than the limit
	Depth           int
	Size            int64  // bytes of the decoded body
	Digest          uint64 // xxhash64 of the decoded body
	Remote          string // address that answered, ip:port
}

// Version orders the pages of a URL: milliseconds of the request's start.
func (p *Page) Version() int64 { return p.When.UnixMilli() }

// Get gives the first value of a header, "" if there is none. The name is
// compared as it is written: writers use the canonical MIME form.
func (p *Page) Get(name string) string {
	for _, h := range p.Header {
		if h.Name == name {
			return h.Value
		}
	}
	return ""
}

// The wire form: a version byte, then protobuf wire fields; docs/records.md
// has the schema. Numbers are never reused. Fields of value zero are left out.
const (
	version = 1

	fieldURL             = 1
	fieldRound           = 2
	fieldStatus          = 3
	fieldHeader          = 4
	fieldBody            = 5
	fieldContentEncoding = 6
	fieldContentType     = 7
	fieldWhen            = 8
	fieldDuration        = 9
	fieldRedirect        = 10
	fieldCut             = 11
	fieldDepth           = 12
	fieldSize            = 13
	fieldDigest          = 14
	fieldRemote          = 15

	fieldHeaderName  = 1
	fieldHeaderValue = 2
)

// ErrCorrupt says that bytes are no page record.
var ErrCorrupt = errors.New("no page record")

// Append appends the wire form. Header pairs beyond MaxHeader bytes are left
// out, and so is what Decode would refuse: longer texts are cut.
func (p *Page) Append(dst []byte) []byte {
	dst = slices.Grow(dst, len(p.Body)+len(p.URL)+len(p.Redirect)+512)
	dst = append(dst, version)
	dst = appendText(dst, fieldURL, p.URL, maxURL)
	dst = appendNumber(dst, fieldRound, int64(p.Round))
	dst = appendNumber(dst, fieldStatus, int64(p.Status))
	dst = p.appendHeader(dst)
	dst = appendText(dst, fieldContentEncoding, p.ContentEncoding, maxText)
	dst = appendText(dst, fieldContentType, p.ContentType, maxText)
	if !p.When.IsZero() {
		dst = appendNumber(dst, fieldWhen, p.When.UnixMilli())
	}
	dst = appendNumber(dst, fieldDuration, int64(p.Duration))
	dst = appendText(dst, fieldRedirect, p.Redirect, maxURL)
	if p.Cut {
		dst = appendNumber(dst, fieldCut, 1)
	}
	dst = appendNumber(dst, fieldDepth, int64(p.Depth))
	dst = appendNumber(dst, fieldSize, p.Size)
	if p.Digest != 0 {
		dst = protowire.AppendTag(dst, fieldDigest, protowire.Fixed64Type)
		dst = protowire.AppendFixed64(dst, p.Digest)
	}
	dst = appendText(dst, fieldRemote, p.Remote, maxText)
	if len(p.Body) > 0 { // last, so that a tool can read the rest without it
		dst = protowire.AppendTag(dst, fieldBody, protowire.BytesType)
		dst = protowire.AppendBytes(dst, p.Body)
	}
	return dst
}

func (p *Page) appendHeader(dst []byte) []byte {
	n := 0
	for i, h := range p.Header {
		if n += len(h.Name) + len(h.Value); n > MaxHeader || i >= maxHeaders {
			break
		}
		pair := protowire.SizeTag(fieldHeaderName) + protowire.SizeBytes(len(h.Name)) +
			protowire.SizeTag(fieldHeaderValue) + protowire.SizeBytes(len(h.Value))
		dst = protowire.AppendTag(dst, fieldHeader, protowire.BytesType)
		dst = protowire.AppendVarint(dst, uint64(pair))
		dst = protowire.AppendTag(dst, fieldHeaderName, protowire.BytesType)
		dst = protowire.AppendString(dst, h.Name)
		dst = protowire.AppendTag(dst, fieldHeaderValue, protowire.BytesType)
		dst = protowire.AppendString(dst, h.Value)
	}
	return dst
}

func appendText(dst []byte, num protowire.Number, s string, limit int) []byte {
	if s == "" {
		return dst
	}
	if len(s) > limit {
		s = s[:limit]
	}
	dst = protowire.AppendTag(dst, num, protowire.BytesType)
	return protowire.AppendString(dst, s)
}

// appendNumber writes zigzag, so that a negative number costs no ten bytes.
func appendNumber(dst []byte, num protowire.Number, v int64) []byte {
	if v == 0 {
		return dst
	}
	dst = protowire.AppendTag(dst, num, protowire.VarintType)
	return protowire.AppendVarint(dst, protowire.EncodeZigZag(v))
}

// Decode reads what Append wrote into p, which it clears first, keeping the
// room of p.Header. p.Body aliases b. Fields that it does not know are skipped.
// Its error wraps ErrCorrupt.
func Decode(b []byte, p *Page) error {
	*p = Page{Header: p.Header[:0]}
	if len(b) == 0 {
		return fmt.Errorf("%w: empty", ErrCorrupt)
	}
	if b[0] != version {
		return fmt.Errorf("%w: version %d, want %d: written by a newer release", ErrCorrupt, b[0], version)
	}
	headers := 0
	for b = b[1:]; len(b) > 0; {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("%w: %w", ErrCorrupt, protowire.ParseError(n))
		}
		b = b[n:]
		n, err := p.field(num, typ, b, &headers)
		if err != nil {
			return err
		}
		b = b[n:]
	}
	if p.URL == "" {
		return fmt.Errorf("%w: no URL", ErrCorrupt)
	}
	return nil
}

// field reads one value and gives its length.
func (p *Page) field(num protowire.Number, typ protowire.Type, b []byte, headers *int) (int, error) {
	var (
		n    int
		v    uint64
		data []byte
		err  error
	)
	switch typ {
	case protowire.VarintType:
		if v, n = protowire.ConsumeVarint(b); n >= 0 {
			p.number(num, protowire.DecodeZigZag(v))
		}
	case protowire.Fixed64Type:
		if v, n = protowire.ConsumeFixed64(b); n >= 0 && num == fieldDigest {
			p.Digest = v
		}
	case protowire.BytesType:
		if data, n = protowire.ConsumeBytes(b); n >= 0 {
			err = p.bytes(num, data, headers)
		}
	default:
		n = protowire.ConsumeFieldValue(num, typ, b)
	}
	if n < 0 {
		return 0, fmt.Errorf("%w: field %d: %w", ErrCorrupt, num, protowire.ParseError(n))
	}
	return n, err
}

func (p *Page) number(num protowire.Number, v int64) {
	switch num {
	case fieldRound:
		p.Round = int(v)
	case fieldStatus:
		p.Status = int(v)
	case fieldWhen:
		p.When = time.UnixMilli(v).UTC()
	case fieldDuration:
		p.Duration = time.Duration(v)
	case fieldCut:
		p.Cut = v != 0
	case fieldDepth:
		p.Depth = int(v)
	case fieldSize:
		p.Size = v
	}
}

func (p *Page) bytes(num protowire.Number, data []byte, headers *int) error {
	switch num {
	case fieldBody:
		if len(data) > maxBody {
			return tooLong(num, len(data), maxBody)
		}
		p.Body = data
	case fieldURL:
		return setText(&p.URL, num, data, maxURL)
	case fieldRedirect:
		return setText(&p.Redirect, num, data, maxURL)
	case fieldContentEncoding:
		return setText(&p.ContentEncoding, num, data, maxText)
	case fieldContentType:
		return setText(&p.ContentType, num, data, maxText)
	case fieldRemote:
		return setText(&p.Remote, num, data, maxText)
	case fieldHeader:
		if *headers += len(data); *headers > 4*MaxHeader || len(p.Header) >= maxHeaders {
			return fmt.Errorf("%w: more than %d header pairs or %d bytes of them", ErrCorrupt, maxHeaders, 4*MaxHeader)
		}
		return p.pair(data)
	}
	return nil
}

func setText(dst *string, num protowire.Number, data []byte, limit int) error {
	if len(data) > limit {
		return tooLong(num, len(data), limit)
	}
	*dst = string(data)
	return nil
}

func tooLong(num protowire.Number, n, limit int) error {
	return fmt.Errorf("%w: field %d has %d bytes, at most %d", ErrCorrupt, num, n, limit)
}

// pair reads one header pair.
func (p *Page) pair(b []byte) error {
	var h Header
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("%w: header: %w", ErrCorrupt, protowire.ParseError(n))
		}
		b = b[n:]
		var data []byte
		if typ == protowire.BytesType {
			data, n = protowire.ConsumeBytes(b)
		} else {
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return fmt.Errorf("%w: header: %w", ErrCorrupt, protowire.ParseError(n))
		}
		switch {
		case typ != protowire.BytesType:
		case num == fieldHeaderName:
			h.Name = string(data)
		case num == fieldHeaderValue:
			h.Value = string(data)
		}
		b = b[n:]
	}
	p.Header = append(p.Header, h)
	return nil
}
