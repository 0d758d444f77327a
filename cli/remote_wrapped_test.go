package cli

import (
	"testing"

	"k8s.io/client-go/tools/remotecommand"

	"g8s.host/gpu-scheduler/test/wrapped"
)

func TestTheWrapperOfExecutorsLeavesNothingOut(t *testing.T) {
	wrapped.Check[executor, remotecommand.Executor](t, wrapped.Left{
		"nothing here streams without a context": {"Stream"},
	})
}
