package conflict

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
)

// TestWhatCameOfTheLastWriteIsReturned: no failure is a success, whatever kind of error it is.
func TestWhatCameOfTheLastWriteIsReturned(t *testing.T) {
	taken := apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "a", errors.New("it was changed"))
	refused := errors.New("refused")
	tests := map[string]struct {
		writes []error
		want   error
		calls  int
	}{
		"at once":                           {[]error{nil}, nil, 1},
		"after a conflict":                  {[]error{taken, nil}, nil, 2},
		"always a conflict":                 {[]error{taken, taken, taken, taken}, taken, 3},
		"refused":                           {[]error{refused}, refused, 1},
		"the client has gone":               {[]error{fmt.Errorf("reading: %w", context.Canceled)}, context.Canceled, 1},
		"the time is over":                  {[]error{context.DeadlineExceeded}, context.DeadlineExceeded, 1},
		"the time is over after a conflict": {[]error{taken, context.DeadlineExceeded}, context.DeadlineExceeded, 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			calls := 0
			err := Retry(wait.Backoff{Steps: 3}, func() error { calls++; return tc.writes[calls-1] })
			if !errors.Is(err, tc.want) || calls != tc.calls {
				t.Errorf("after %d calls: %v, want %v after %d", calls, err, tc.want, tc.calls)
			}
		})
	}
}
