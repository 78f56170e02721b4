package sink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
)

// Target is where `starter load` writes: a name that people own, and not one
// generation of a crawl.
type Target struct {
	Name       string          // index, alias or data stream; made if nothing has the name
	DataStream bool            // it is a data stream: every op is a create
	Pipeline   string          // ingest pipeline; "": none
	Template   json.RawMessage // index template to put first; nil: none
}

var targetName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,127}$`)

// Check says what is impossible about the target itself.
func (t Target) Check() error {
	if !targetName.MatchString(t.Name) {
		return fmt.Errorf("name %q: use a-z, 0-9, dots, dashes and underscores, at most 128, beginning with a letter or digit", t.Name)
	}
	if len(t.Template) > 0 && !json.Valid(t.Template) {
		return errors.New("the template is not JSON")
	}
	return nil
}

// TargetError says that what has the target's name is of another kind, or that
// something it needs is missing: an operator has to act.
type TargetError struct {
	Name   string
	Reason string // with the remedy
}

func (e *TargetError) Error() string { return fmt.Sprintf("target %q: %s", e.Name, e.Reason) }

// Targets is an Admin that can load into such targets.
type Targets interface {
	// PrepareTarget makes template, index or data stream where nothing has the
	// name; idempotent.
	PrepareTarget(ctx context.Context, t Target) error
	// OpenTarget gives a writer of a target that is there; ErrNoIndex if there is
	// none. The writer takes ops for other indexes, too (Op.Index), which the
	// server makes when they are first written to.
	OpenTarget(ctx context.Context, t Target) (Sink, error)
	// DropTarget removes the index of the name, with the template that the target
	// has. An alias and a data stream stay, as do indexes that documents named
	// themselves: they may hold what is others'; dropped is false then.
	// Idempotent.
	DropTarget(ctx context.Context, t Target) (dropped bool, err error)
}
