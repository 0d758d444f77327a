package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/clustertest"
)

// reserve keeps the nodes of the test's pool, and returns what the reservation says.
func (e *env) reserve(from, to time.Time, more string) (status func() names.GPUReservationStatus) {
	e.Helper()
	file := filepath.Join(e.TempDir(), "reservation.yaml")
	text := fmt.Sprintf("apiVersion: g8s.host/v1alpha1\nkind: GPUReservation\nmetadata: {name: %s}\nspec: {pool: %s, from: %q, to: %q%s}\n",
		e.Pool, e.Pool, from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339), more)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		e.Fatal(err)
	}
	e.Kubectl("apply", "--server-side", "-f", file)
	e.Cleanup(func() {
		_, _ = cluster.RunKubectl(context.Background(), "delete", "gpureservation", e.Pool, "--ignore-not-found")
	})
	return func() names.GPUReservationStatus {
		var read names.GPUReservation
		if err := json.Unmarshal([]byte(e.Kubectl("get", "gpureservation", e.Pool, "-o", "json")), &read); err != nil {
			e.Fatal(err)
		}
		return read.Status
	}
}

// TestAReservationTellsWhoIsInTheWay, as its window begins while a pod is there that may not be.
func TestAReservationTellsWhoIsInTheWay(t *testing.T) {
	bounds.SkipInShort(t)
	t.Parallel()
	e := newEnv(t)
	pod := e.Start(clustertest.Job{Name: "sft", GPUs: 1})[0]
	from := time.Now().Add(15 * time.Second)
	status := e.reserve(from, from.Add(time.Hour), "")
	shows := func(what string, phase names.ReservationPhase, pods int32) {
		e.Eventually("the reservation to show "+what, func(context.Context) (bool, error) {
			s := status()
			return s.Phase == phase && s.InTheWay == pods && s.NodesInTheWay == pods, nil
		})
	}
	shows("the pod that is in the way", names.ReservationUpcoming, 1)
	shows("that it has begun", names.ReservationActive, 1)
	e.told("default", e.Pool, "StillThere", "1 pods on 1 nodes are still there")
	if seen := e.History.Of(pod.UID); !seen.Ended.IsZero() {
		t.Error("the pod was ended, and nobody has asked for that")
	}
	e.Kubectl("delete", "job", "-n", e.Namespace, "sft")
	shows("that nobody is there any more", names.ReservationActive, 0)
}

// TestAReservationEvicts who is still there, and not whom it is for.
func TestAReservationEvicts(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	pod := e.Start(clustertest.Job{Name: "sft", GPUs: 1})[0]
	status := e.reserve(time.Now(), time.Now().Add(time.Hour), ", evict: true")
	e.Eventually("the nodes to be empty", func(context.Context) (bool, error) {
		s := status()
		return s.Phase == names.ReservationActive && s.InTheWay == 0, nil
	})
	e.told(e.Namespace, pod.Name, "EvictedForReservation", "is kept for others by GPUReservation "+e.Pool)
	e.Kubectl("delete", "gpureservation", e.Pool)
	e.Eventually("the job to run again", func(context.Context) (bool, error) {
		return slices.ContainsFunc(e.History.Running("sft"), func(seen clustertest.Sighting) bool { return seen.Pod.UID != pod.UID }), nil
	})
}
