package chaos

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/sandbox"
)

// What the scheduler logs when it has become the leader, when the fence has refused a binding of its, and when it asks what
// became of one.
const (
	logLeads   = "Successfully acquired lease"
	logRefused = "another scheduler leads"
	logInsists = "Nobody told whether the pod is bound"
)

// started numbers the processes of all tests, so that each has a log of its own.
var started int

// replicas are the schedulers of one test.
type replicas struct {
	*testing.T
	processes []*sandbox.Process
	args      []string // of each process
}

// startReplicas starts a leader and one that stands by, with more flags.
func startReplicas(t *testing.T, args ...string) *replicas {
	t.Helper()
	r := &replicas{T: t, args: args}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(r.logs())
		}
		for _, process := range r.processes {
			if err := process.Stop(); err != nil {
				t.Error(err)
			}
		}
	})
	for range 2 {
		if err := r.start(); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// start starts one replica and waits until it is ready to lead.
func (r *replicas) start() error {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	started++
	process, err := cluster.StartScheduler(ctx, sandbox.SchedulerOptions{Name: "gpu-scheduler-" + strconv.Itoa(started), Args: r.args})
	if err != nil {
		return err
	}
	r.processes = append(r.processes, process)
	return nil
}

// leader waits until a replica leads, and takes it out of the replicas: the caller will end it.
func (r *replicas) leader() *sandbox.Process {
	r.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(poll) {
		for i, process := range r.processes {
			if count(r.T, process, logLeads) == 0 {
				continue
			}
			r.processes = slices.Delete(r.processes, i, i+1)
			select {
			case <-process.Done():
				r.Fatalf("%s ended by itself: %v\n%s", process.Name(), process.Wait(), process.LogTail())
			default:
			}
			return process
		}
	}
	r.Fatal("no replica has become the leader")
	return nil
}

// logs is the ends of the logs of the replicas, for a failed test.
func (r *replicas) logs() string {
	var text strings.Builder
	for _, process := range r.processes {
		fmt.Fprintf(&text, "%s\n%s\n", process.Name(), process.LogTail())
	}
	return text.String()
}

// epoch reads the leadership of the moment.
func epoch(t *testing.T) string {
	t.Helper()
	lease, err := client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(t.Context(), names.SchedulerName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s/%d", ptr.Deref(lease.Spec.HolderIdentity, ""), ptr.Deref(lease.Spec.LeaseTransitions, 0))
}

// awaitOtherEpoch waits until another than the leader of an epoch has the lease.
func awaitOtherEpoch(t *testing.T, old string) {
	t.Helper()
	for deadline := time.Now().Add(patience); epoch(t) == old; time.Sleep(poll) {
		if time.Now().After(deadline) {
			t.Fatalf("the epoch is %s after %s still", old, patience)
		}
	}
}

// count counts the lines of a process's log that hold a text.
func count(t *testing.T, process *sandbox.Process, text string) int {
	t.Helper()
	log, err := os.ReadFile(process.LogPath())
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range bytes.Lines(log) {
		if bytes.Contains(line, []byte(text)) {
			lines++
		}
	}
	return lines
}
