package command

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/client-go/kubernetes"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"g8s.host/gpu-scheduler/manifests"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/fixture"
)

// The scheduler that blockedScheduler starts: our command with a plugin that blocks at pods of this name.
const (
	blockerEnv  = "GPU_SCHEDULER_TEST_BLOCKS_AT"
	blockerName = "Blocker"
)

// blocker is a plugin that waits for what never comes, as one does that reads from a cache which is never synced.
type blocker struct{ pod string }

func (blocker) Name() string { return blockerName }

func (b blocker) PreFilter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if pod.Name == b.pod {
		select {}
	}
	return nil, nil
}

func (blocker) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func withBlocker(pod string) app.Option {
	return app.WithPlugin(blockerName, func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return blocker{pod}, nil })
}

// startBlocked starts this test's own program as a scheduler with the plugin that blocks.
func startBlocked(t *testing.T, cluster *sandbox.Sandbox, pod string, args ...string) *sandbox.Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, config := filepath.Join(t.TempDir(), "scheduler"), filepath.Join(t.TempDir(), "config.yaml")
	script := fmt.Sprintf("#!/bin/sh\nexec env %s=%s %s \"$@\"\n", blockerEnv, pod, self)
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	shipped, err := manifests.FS.ReadFile("scheduler/scheduler-config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const first = "      - name: GPUFilter\n"
	if err := os.WriteFile(config, []byte(strings.Replace(string(shipped), first, "      - name: "+blockerName+"\n"+first, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	process, err := cluster.StartScheduler(t.Context(), sandbox.SchedulerOptions{Name: "blocked", Binary: program, ConfigPath: config, Args: args})
	if err != nil {
		t.Fatal(err)
	}
	return process
}

// TestALoopThatStandsStillGivesUpTheLead has a plugin of the leader block forever. Before there was a watch, the lease was
// held, /livez said ok, and no pod of anybody was placed again.
func TestALoopThatStandsStillGivesUpTheLead(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cluster, err := sandbox.Start(ctx, sandbox.Options{Progress: os.Stderr})
	if cluster != nil {
		t.Cleanup(func() {
			if err := cluster.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.InstallScheduler(ctx); err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(cluster.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Nodes().Create(ctx, fixture.Node("node").GPUs(8, "A100-80G").Obj(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const limit = 5 * time.Second
	leader := startBlocked(t, cluster, "bad", "--stall-limit="+limit.String())
	create := func(name string) {
		t.Helper()
		if _, err := client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, fixture.Pod(name).GPUs(1).Obj(), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create("before")
	awaitBound(t, client, "before", time.Minute)
	if _, err := cluster.StartScheduler(ctx, sandbox.SchedulerOptions{Name: "standby"}); err != nil {
		t.Fatal(err)
	}
	create("bad")
	time.Sleep(100 * time.Millisecond)
	create("good")
	if took := awaitBound(t, client, "good", time.Minute); took < limit-time.Second {
		t.Errorf("the next pod was bound after %s: the leader was not blocked, which proves nothing", took)
	} else if took > limit+5*time.Second {
		t.Errorf("the next pod was bound after %s, want at most %s and a handover", took, limit)
	}
	awaitBound(t, client, "bad", time.Minute)
	select {
	case <-leader.Done():
	case <-time.After(endWithin + 10*time.Second):
		t.Error("the blocked process runs on")
	}
	if log, err := os.ReadFile(leader.LogPath()); err != nil || !strings.Contains(string(log), "at pod default/bad") {
		t.Errorf("the log does not name the pod (%v):\n%s", err, leader.LogTail())
	}
}

// awaitBound waits until a pod has a node, and returns how long that took.
func awaitBound(t *testing.T, client kubernetes.Interface, name string, patience time.Duration) time.Duration {
	t.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		pod, err := client.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if pod.Spec.NodeName != "" {
			return time.Since(began)
		}
		if time.Since(began) > patience {
			t.Fatalf("pod %s is not bound after %s: %v", name, patience, pod.Status.Conditions)
		}
	}
}

// TestLivezFailsWithTheLoop asks as kubelet does, of kube-scheduler's own handler.
func TestLivezFailsWithTheLoop(t *testing.T) {
	before := healthz.PingHealthz
	defer func() { healthz.PingHealthz = before }()
	var fault error
	serveLiveness(func() error { return fault })
	handler := mux.NewPathRecorderMux("test")
	healthz.InstallLivezHandler(handler) // as kube-scheduler does
	for _, want := range []error{nil, errors.New("the scheduling loop has stood still"), nil} {
		fault = want
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/livez", nil))
		if ok := answer.Code == http.StatusOK; ok != (want == nil) {
			t.Errorf("/livez: %d %s, with the fault %v", answer.Code, answer.Body, want)
		}
	}
}

func TestStallLimit(t *testing.T) {
	for limit, good := range map[time.Duration]bool{0: true, 2 * time.Second: true, time.Hour: true, time.Second: false, -time.Second: false} {
		if err := (&leaderOptions{stall: limit}).validateFlags(); (err == nil) != good {
			t.Errorf("--stall-limit=%s: %v", limit, err)
		}
	}
	if got := newCommand().Flags().Lookup("stall-limit").DefValue; got != "30s" {
		t.Errorf("--stall-limit is %s by default, want 30s", got)
	}
}

func TestTakeoverAfter(t *testing.T) {
	for takeover, good := range map[time.Duration]bool{
		0: true, 3 * time.Second: true, time.Minute: true, time.Second: false, 2500 * time.Millisecond: false, -time.Second: false,
	} {
		if err := (&leaderOptions{takeover: takeover}).validateFlags(); (err == nil) != good {
			t.Errorf("--takeover-after=%s: %v", takeover, err)
		}
	}
}
