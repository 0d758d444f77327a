package timelimit

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/client-go/util/flowcontrol"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// TestTheLimitIsNamed has a client wait for its turn for longer than it may.
func TestTheLimitIsNamed(t *testing.T) {
	limiter := flowcontrol.NewTokenBucketRateLimiter(0.001, 1)
	limiter.Accept()
	ctx, stop := WithLimit(t.Context(), 20*time.Millisecond, phrase.Quote("the pod has not ended"))
	defer stop()
	err := Explain(ctx, limiter.Wait(ctx))
	var late *Error
	if !errors.As(err, &late) || err.Error() != "after 20ms, the pod has not ended" {
		t.Errorf("the error is %v", err)
	}
}

func TestOtherErrorsStay(t *testing.T) {
	ctx, stop := WithLimit(t.Context(), time.Hour, phrase.Quote("nothing"))
	if err := Explain(ctx, nil); err != nil {
		t.Errorf("nothing failed, and the error is %v", err)
	}
	failed := errors.New("failed")
	if err := Explain(ctx, failed); !errors.Is(err, failed) {
		t.Errorf("the error is %v, want %v", err, failed)
	}
	stop()
	if err := Explain(ctx, ctx.Err()); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v, want that it was canceled", err)
	}
}
