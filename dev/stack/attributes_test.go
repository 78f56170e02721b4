package stack

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"google.golang.org/grpc"
)

// operator is a Temporal server's list of search attributes.
type operator struct {
	operatorservice.OperatorServiceClient
	have  map[string]enumspb.IndexedValueType
	added map[string]enumspb.IndexedValueType
}

func (o *operator) ListSearchAttributes(context.Context, *operatorservice.ListSearchAttributesRequest, ...grpc.CallOption) (*operatorservice.ListSearchAttributesResponse, error) {
	return &operatorservice.ListSearchAttributesResponse{CustomAttributes: o.have}, nil
}

func (o *operator) AddSearchAttributes(_ context.Context, req *operatorservice.AddSearchAttributesRequest, _ ...grpc.CallOption) (*operatorservice.AddSearchAttributesResponse, error) {
	o.added = req.GetSearchAttributes()
	return &operatorservice.AddSearchAttributesResponse{}, nil
}

// A data directory of an earlier release of ours gets what it does not have.
func TestRegisterAttributesAddsTheMissing(t *testing.T) {
	have := SearchAttributes()
	delete(have, "TrawlPages")
	have["SomebodyElses"] = enumspb.INDEXED_VALUE_TYPE_TEXT
	op := &operator{have: have}
	if err := registerAttributes(t.Context(), op); err != nil {
		t.Fatal(err)
	}
	want := map[string]enumspb.IndexedValueType{"TrawlPages": enumspb.INDEXED_VALUE_TYPE_INT}
	if !maps.Equal(op.added, want) {
		t.Errorf("added %v, want %v", op.added, want)
	}

	op = &operator{have: SearchAttributes()}
	if err := registerAttributes(t.Context(), op); err != nil || op.added != nil {
		t.Errorf("nothing is missing: added %v, %v", op.added, err)
	}
}

func TestRegisterAttributesRefusesAnotherType(t *testing.T) {
	have := SearchAttributes()
	have["TrawlPages"] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	err := registerAttributes(t.Context(), &operator{have: have})
	var permanent errPermanent
	if !errors.As(err, &permanent) || !strings.Contains(err.Error(), "TrawlPages") {
		t.Errorf("error %v, want a permanent one that names TrawlPages", err)
	}
}

func TestRetryUntil(t *testing.T) {
	failure := errors.New("not yet")
	tries := 0
	err := retryUntil(t.Context(), func() error {
		if tries++; tries < 3 {
			return failure
		}
		return nil
	})
	if err != nil || tries != 3 {
		t.Errorf("%d tries, %v", tries, err)
	}
	if err := retryUntil(t.Context(), func() error { return errPermanent{failure} }); !errors.Is(err, failure) {
		t.Errorf("permanent: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := retryUntil(ctx, func() error { return failure }); !errors.Is(err, failure) || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
