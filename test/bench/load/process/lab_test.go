package process

import (
	"path/filepath"
	"testing"

	"g8s.host/gpu-scheduler/test/bench/load"
)

// oursAndStock are measured in turns.
var oursAndStock = [2]Scheduler{{Name: "ours"}, {Name: "stock", Config: filepath.FromSlash("../testdata/stock.yaml")}}

// newLab starts a control plane with a fleet, until the benchmark ends.
func newLab(b *testing.B, fleet load.Fleet) *Lab {
	b.Helper()
	lab, err := NewLab(b.Context(), fleet, b.Output())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := lab.Close(); err != nil {
			b.Error(err)
		}
	})
	return lab
}
