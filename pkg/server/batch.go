package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// codeNotTried is of an item of a batch for which the request had no time left.
const codeNotTried = "NotTried"

// each carries out the items of a batch one after the other, and returns what became of those that failed, by their index. The one
// that is being written when the request ends is written to its end, as submit does. Those after it are not tried, which is told,
// too: the answer may be remembered for its key though the client is gone.
func each(ctx context.Context, count int, do func(i int) error) map[int]*Failure {
	failed := map[int]*Failure{}
	for i := range count {
		err := error(&refusal{status: http.StatusGatewayTimeout, code: codeNotTried,
			text: "nothing was changed: the request ended before it was the turn of this one; send it again, in a smaller batch"})
		if ctx.Err() == nil {
			err = do(i)
			if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
				err = fmt.Errorf("the request ended while this one was carried out: %w", err)
			}
		}
		if err != nil {
			failed[i] = failure(ctx, err)
		}
	}
	return failed
}
