package node

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/pkg/sandbox/realnode"
	"g8s.host/gpu-scheduler/test/bounds"
)

// stopped is how long a part is stopped: longer than most of its clients wait for an answer.
const stopped = 4 * time.Second

// refusable is how many of a hundred pods kubelet may refuse while parts fail.
const refusable = 5

// outagePart is a part of the node that fails, and how it is started again.
type outagePart struct {
	name  string
	start func(*realnode.Node, context.Context) error
}

var outageParts = []outagePart{
	{realnode.AgentName, (*realnode.Node).StartAgent},
	{realnode.KubeletName, (*realnode.Node).StartKubelet},
	{realnode.ContainerdName, (*realnode.Node).StartContainerd},
}

// kill ends a part as a crash does, and starts it again.
func (p outagePart) kill(ctx context.Context) error {
	if err := cluster.FindProcess(p.name).Kill(); err != nil {
		return err
	}
	return p.start(bed, ctx)
}

// stop freezes a part for a while: it holds its sockets and answers nobody.
func (p outagePart) stop(ctx context.Context) error {
	process := cluster.FindProcess(p.name)
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-time.After(stopped):
	}
	return process.Signal(syscall.SIGCONT)
}

// TestContainersGetTheirCardsWhilePartsFail kills and stops the agent, kubelet and containerd in turn while a wave runs.
// It is over when each has failed as often as was asked for; containers go on being started all the time.
func TestContainersGetTheirCardsWhilePartsFail(t *testing.T) {
	needTime(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := &wave{prefix: "outage", want: 1 << 30, outages: true, extra: stopped}
	began := time.Now()
	over := make(chan struct{})
	go func() {
		defer close(over)
		w.run(ctx)
	}()
	failures := 0
	for range *outages {
		for _, part := range outageParts {
			for how, do := range map[string]func(context.Context) error{"killing": part.kill, "stopping": part.stop} {
				t.Logf("%s %s %s", time.Now().UTC().Format(time.TimeOnly), how, part.name) // as the parts' logs have it
				if err := do(ctx); err != nil {
					t.Fatalf("%s %s: %v", how, part.name, err)
				}
				failures++
				sleep(ctx, *pause)
			}
		}
	}
	w.finish()
	<-over
	w.report(t, time.Since(began))
	t.Logf("%d outages: agent, kubelet and containerd each killed and stopped %d times", failures, *outages)
	if w.started == 0 {
		t.Error("no container was started meanwhile")
	}
	// Pods that arrive in the second in which the agent is away are refused, by no fault of the agent's. That happens now and then.
	if most := max(refusable*w.made/100, workers); w.refused > most {
		t.Errorf("kubelet refused %d of %d pods, want %d at the most", w.refused, w.made, most)
	}
}

// TestAStoppedPartGoesOnWhereItWas stops each part while a container starts, and looks how soon that has started once the
// part goes on.
func TestAStoppedPartGoesOnWhereItWas(t *testing.T) {
	needTime(t)
	for i, failing := range outageParts {
		t.Run(failing.name, func(t *testing.T) {
			name := "stopped-" + failing.name
			pod := shape{parts: []part{{cards: 1}}}.pod(name)
			pod.Spec.SchedulerName = "by-hand"
			if err := create(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := remove(context.WithoutCancel(t.Context()), name, false); err != nil {
					t.Error(err)
				}
			})
			if err := bind(t.Context(), name, choice(i)); err != nil {
				t.Fatal(err)
			}
			sleep(t.Context(), 300*time.Millisecond)
			if err := failing.stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			took := eventually(t, "the container to start", func(context.Context) bool {
				got, err := inside.of(reportName(name, partName(0)))
				return err == nil && len(got) > 0
			})
			t.Logf("started %s after %s went on", took.Round(10*time.Millisecond), failing.name)
			if text := why(name); took > bounds.Of(15*time.Second) {
				t.Errorf("want 15 s at the most, in which kubelet has tried again: %v\n%v", text, kubeletOn(text.Error()))
			}
		})
	}
}

// finish lets the wave end with the pods that it has.
func (w *wave) finish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.want = 0
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// TestRunningContainersOutliveEveryPart looks whether a container runs on, the same one, whatever fails beside it.
func TestRunningContainersOutliveEveryPart(t *testing.T) {
	needTime(t)
	ctx := t.Context()
	s := shape{parts: []part{{cards: 2}}}
	w := &wave{prefix: "outlives"}
	if err := create(ctx, s.pod("outlives")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remove(context.WithoutCancel(ctx), "outlives", false); err != nil {
			t.Error(err)
		}
	})
	if err := w.look(ctx, "outlives", s); err != nil {
		t.Fatal(err)
	}
	w.report(t, 0)
	for _, part := range outageParts {
		if err := part.kill(ctx); err != nil {
			t.Fatalf("killing %s: %v", part.name, err)
		}
		sleep(ctx, 3*time.Second)
	}
	if got, err := inside.of(reportName("outlives", partName(0))); err != nil || len(got) != 1 {
		t.Errorf("the container was started %d times, want once; error %v", len(got), err)
	}
	if text := fmt.Sprint(why("outlives")); !isRunning(ctx, "outlives") {
		t.Error(text)
	}
}

// TestAContainerStartsAgainWithoutTheAPIServer: the agent knows the pods of its node.
func TestAContainerStartsAgainWithoutTheAPIServer(t *testing.T) {
	needTime(t)
	const name = "alone"
	s := shape{parts: []part{{cards: 2}}}
	pod := s.pod(name)
	pod.Spec.Containers[0].Args = append(pod.Spec.Containers[0].Args, "--for=4s", "--exit=3")
	if err := create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remove(context.WithoutCancel(t.Context()), name, false); err != nil {
			t.Error(err)
		}
	})
	placed, err := bound(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	assigned, err := assignment(placed)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := inside.await(ctx, reportName(name, partName(0)), 1); err != nil {
		t.Fatal(err, why(name))
	}
	server := cluster.FindProcess("kube-apiserver")
	if err := server.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	got, err := inside.await(ctx, reportName(name, partName(0)), 2)
	if on := server.Signal(syscall.SIGCONT); on != nil {
		t.Fatal(on)
	}
	if err != nil {
		t.Fatal(err, why(name))
	}
	for _, report := range got {
		for _, fault := range wrong(assigned, partName(0), report) {
			t.Error(fault)
		}
	}
}

// ended says whether a process has ended.
func ended(p *sandbox.Process) bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}
