package controller

import (
	"testing"

	"g8s.host/gpu-scheduler/test/clustertest"
)

// env is one test's namespace and pool.
type env struct{ *clustertest.Env }

func newEnv(t *testing.T) *env {
	t.Helper()
	return &env{cluster.NewEnvWithPool(t)}
}
