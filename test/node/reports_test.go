package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"g8s.host/gpu-scheduler/pkg/sandbox/realnode"
	"g8s.host/gpu-scheduler/pkg/sandbox/realnode/probe"
)

// Folders of the node that all containers of the tests have: locks of cards, and reports, a file for each start of a
// container.
const (
	sharedFolder = "/run/gpu-probe"
	locksFolder  = sharedFolder + "/locks"
	reportFolder = sharedFolder + "/reports"
)

const pollEvery = 25 * time.Millisecond

// reports collects what containers saw, by what they call themselves.
type reports struct {
	folder string

	mu   sync.Mutex
	seen map[string][]probe.Report // one for each start
}

func readReports(n *realnode.Node) (*reports, error) {
	r := &reports{folder: n.HostPath(reportFolder), seen: map[string][]probe.Report{}}
	for _, path := range []string{reportFolder, locksFolder} {
		if err := os.MkdirAll(n.HostPath(path), 0o777); err != nil {
			return nil, fmt.Errorf("making a folder for the containers: %w", err)
		}
	}
	return r, nil
}

// of returns the reports of a container, in no order.
func (r *reports) of(name string) ([]probe.Report, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.read(); err != nil {
		return nil, err
	}
	return r.seen[name], nil
}

// read takes the new files out of the folder.
func (r *reports) read() error {
	paths, err := filepath.Glob(filepath.Join(r.folder, "report-*.json"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var report probe.Report
		if err == nil {
			err = json.Unmarshal(data, &report)
		}
		if err == nil {
			err = os.Remove(path)
		}
		if err != nil {
			return fmt.Errorf("reading a container's report: %w", err)
		}
		r.seen[report.Name] = append(r.seen[report.Name], report)
	}
	return nil
}

// await waits until a container has started so often, and returns its reports.
func (r *reports) await(ctx context.Context, name string, starts int) ([]probe.Report, error) {
	for {
		got, err := r.of(name)
		if err != nil || len(got) >= starts {
			return got, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for start %d of container %s: %w", starts, name, ctx.Err())
		case <-time.After(pollEvery):
		}
	}
}
