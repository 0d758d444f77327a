package queueing

import (
	"bytes"
	"compress/gzip"
	_ "embed" // the trace
	"fmt"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

//go:embed testdata/philly.csv.gz
var philly []byte

// Philly is the list of 82,247 jobs of Microsoft's Philly cluster, 2017-09-04 to 2017-12-22. testdata/README.md has its
// source and licence.
func Philly() ([]*trace.Job, error) {
	unpacked, err := gzip.NewReader(bytes.NewReader(philly))
	if err != nil {
		return nil, fmt.Errorf("unpacking the trace: %w", err)
	}
	return trace.ReadJobs(unpacked)
}
