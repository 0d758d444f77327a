package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// codeNotTried marks a batch item that was not tried because the request ran out of time.
const codeNotTried = "NotTried"

// runBatch processes the items of a batch in order and returns the failures by index. An item that is being written when the request ends is finished, as
// submit does. Later items are not tried and are reported as such: the answer may be stored for its idempotency key even if the client is gone.
func runBatch(ctx context.Context, count int, do func(i int) error) map[int]*Failure {
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
			failed[i] = failureFromError(ctx, err)
		}
	}
	return failed
}
