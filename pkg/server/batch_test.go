package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestABatchThatEndsHalfDoneSaysWhichHalf: every item is done or has failed, and what was not tried is told from what was.
func TestABatchThatEndsHalfDoneSaysWhichHalf(t *testing.T) {
	ends := map[string]func() (context.Context, func()){
		"the client goes": func() (context.Context, func()) { return context.WithCancel(t.Context()) },
		"the time is over": func() (context.Context, func()) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			t.Cleanup(cancel)
			return ctx, func() { <-ctx.Done() }
		},
	}
	for name, begin := range ends {
		t.Run(name, func(t *testing.T) {
			ctx, end := begin()
			var done []int
			failed := runBatch(ctx, 6, func(i int) error {
				switch i {
				case 0:
					return invalidErrorf("none")
				case 2:
					end() // while it is written
				case 3:
					return errors.New("it was begun")
				}
				done = append(done, i)
				return nil
			})
			codes := map[int]string{}
			for i, f := range failed {
				codes[i] = f.Code
			}
			if diff := cmp.Diff(map[int]string{0: "Invalid", 3: codeNotTried, 4: codeNotTried, 5: codeNotTried}, codes); diff != "" {
				t.Errorf("failed (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]int{1, 2}, done); diff != "" {
				t.Errorf("done (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAnItemThatTheEndOfItsRequestCutOffIsNotCalledUntried: what came of it is what its writer says.
func TestAnItemThatTheEndOfItsRequestCutOffIsNotCalledUntried(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	failed := runBatch(ctx, 2, func(int) error {
		cancel()
		return fmt.Errorf("reading jobs: %w; job x was deleted again", ctx.Err())
	})
	codes := map[int]string{}
	for i, f := range maps.All(failed) {
		codes[i] = f.Code + ": " + f.Message
	}
	want := map[int]string{
		0: "Timeout: the request ended while this one was carried out: reading jobs: context canceled; job x was deleted again",
		1: "NotTried: nothing was changed: the request ended before it was the turn of this one; send it again, in a smaller batch",
	}
	if diff := cmp.Diff(want, codes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
