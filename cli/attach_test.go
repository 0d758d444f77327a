package cli

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// echo prints what it gets, to both outputs, and ends with a code.
func echo(code int) func(programStreams) int {
	return func(s programStreams) int {
		got, _ := io.ReadAll(s.in)
		fmt.Fprintf(s.out, "got %s", got)
		fmt.Fprintf(s.errOut, "and %d bytes", len(got))
		return code
	}
}

// attachTo runs gpuctl attach against a job, with little patience for what is never to come.
func attachTo(t *testing.T, j *oneJob, patience time.Duration) (out, errOut string, err error) {
	t.Helper()
	streams, stdout, stderr := TestIOStreams("hello")
	f := j.serve(t, streams)
	client, err := f.newKubernetesClient()
	if err != nil {
		t.Fatal(err)
	}
	target := &podTarget{factory: f, rank: -1}
	where, err := target.findContainer(t.Context(), client, "sft")
	if err != nil {
		return "", "", err
	}
	c, err := target.prepareConnection(t.Context(), client, "sft", where)
	if err != nil {
		t.Fatal(err)
	}
	if patience > 0 {
		c.outcomeTimeout = patience
	}
	err = c.runUntilEnd(t.Context())
	return stdout.String(), stderr.String(), err
}

func TestHowAProgramEndsThatSomebodyIsConnectedTo(t *testing.T) {
	tests := map[string]struct {
		program func(programStreams) int
		end     func(*corev1.Pod, int32)
		code    int
		says    string
	}{
		"well":        {program: echo(0)},
		"with a code": {program: echo(7), code: 7, says: "exit code 7"},
		"and its container starts again": {program: echo(9), code: 9, says: "exit code 9", end: func(pod *corev1.Pod, code int32) {
			status := &pod.Status.ContainerStatuses[0]
			status.RestartCount++
			status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: code}
		}},
		"with its pod": {program: echo(0), code: exitNotFinished, says: "pod sft-abcde is gone",
			end: func(pod *corev1.Pod, _ int32) { *pod = corev1.Pod{} }},
		"and the pod is another one": {program: echo(0), code: exitNotFinished, says: "pod sft-abcde is gone",
			end: func(pod *corev1.Pod, _ int32) { pod.UID = "pod-2" }},
		"for a job of higher priority": {program: echo(137), code: exitNotFinished, says: "a job of higher priority takes its place",
			end: func(pod *corev1.Pod, code int32) {
				endPod(pod, code)
				pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
					Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler,
				})
			}},
		"because its job was deleted": {program: echo(143), code: exitNotFinished, says: "was told to end", end: func(pod *corev1.Pod, code int32) {
			endPod(pod, code)
			pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}},
	}
	for name, tc := range tests {
		for protocol, noSocket := range map[string]bool{"WebSocket": false, "SPDY": true} {
			t.Run(name+" over "+protocol, func(t *testing.T) {
				j := newOneJob(t)
				j.program, j.end, j.noSocket = tc.program, tc.end, noSocket
				out, errOut, err := attachTo(t, j, 0)
				if exitCode(err) != tc.code || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
					t.Errorf("error %v with exit code %d, want %d and %q", err, exitCode(err), tc.code, tc.says)
				}
				if out != "got hello" || errOut != "and 5 bytes" {
					t.Errorf("stdout %q, stderr %q", out, errOut)
				}
			})
		}
	}
}

func TestAConnectionThatIsLost(t *testing.T) {
	half := func(s programStreams) int {
		fmt.Fprint(s.out, "half")
		return -1
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods/attach"}, "sft-abcde", nil)
	broken := apierrors.NewInternalError(fmt.Errorf("the kubelet does not answer"))
	kwok := apierrors.NewInternalError(fmt.Errorf(`error attaching to container: no attaches found for container "main" in pod "team/sft-abcde"`))
	tests := map[string]struct {
		job  func(*oneJob)
		code int
		says string
	}{
		"the network breaks over WebSocket": {job: func(j *oneJob) { j.program = half }, code: exitNotFinished,
			says: "Come back to it: gpuctl attach sft -n team"},
		"the network breaks over SPDY": {job: func(j *oneJob) { j.program, j.noSocket = half, true }, code: exitNotFinished,
			says: "Come back to it: gpuctl attach sft -n team"},
		"the kubelet does not answer": {job: func(j *oneJob) { j.refuse = broken }, code: exitNotFinished, says: "the kubelet does not answer"},
		"its node is simulated":       {job: func(j *oneJob) { j.refuse = kwok }, code: exitFailure, says: "gpu-sandbox up --host-exec"},
		"it is not allowed":           {job: func(j *oneJob) { j.refuse = forbidden }, code: exitForbidden, says: "forbidden"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			j := newOneJob(t)
			tc.job(j)
			_, _, err := attachTo(t, j, 50*time.Millisecond)
			if exitCode(err) != tc.code || err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v with exit code %d, want %d and %q", err, exitCode(err), tc.code, tc.says)
			}
		})
	}
}

// TestATerminalIsPassedOn types on one, and looks at what the program sees of it.
func TestATerminalIsPassedOn(t *testing.T) {
	keyboard, screen, err := pty.Open()
	if err != nil {
		t.Skip("no terminal can be made here:", err)
	}
	t.Cleanup(func() { _, _ = keyboard.Close(), screen.Close() })
	if err := pty.Setsize(screen, &pty.Winsize{Cols: 91, Rows: 33}); err != nil {
		t.Fatal(err)
	}
	before, err := term.GetState(int(screen.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	j := newOneJob(t)
	j.pod.Spec.Containers[0].TTY = true
	typed := make([]byte, len("hi\x03"))
	j.program = func(s programStreams) int {
		for first := true; ; first = false {
			if size := <-s.sizes; first != (size.Width == 92 && size.Height == 34) || !first && (size.Width != 91 || size.Height != 33) {
				t.Errorf("the size is %v, first: %t", size, first)
			} else if !first {
				break
			}
		}
		_, _ = io.WriteString(keyboard, "hi\x03") // Ctrl-C is the program's
		_, _ = io.ReadFull(s.in, typed)
		fmt.Fprint(s.out, "bye")
		return 3
	}
	streams, out, _ := TestIOStreams("")
	streams.In, streams.InIsTerminal = screen, true
	f := j.serve(t, streams)
	err = runAttach(t.Context(), &attachOptions{podTarget: podTarget{factory: f, rank: -1}}, "sft")
	if exitCode(err) != 3 || out.String() != "bye" || string(typed) != "hi\x03" {
		t.Errorf("error %v, printed %q, typed %q", err, out, typed)
	}
	if after, err := term.GetState(int(screen.Fd())); err != nil || !reflect.DeepEqual(before, after) {
		t.Errorf("the terminal is not as before: %v", err)
	}
}

func TestAttachOnlyWatchesWhatTakesNoInput(t *testing.T) {
	for name, tc := range map[string]struct {
		takes, noStdin bool
		says           string
	}{
		"the job takes none":  {says: "takes no input"},
		"the user wants none": {takes: true, noStdin: true, says: "This is the output of job sft from now on"},
	} {
		t.Run(name, func(t *testing.T) {
			j := newOneJob(t)
			j.pod.Spec.Containers[0].Stdin = tc.takes
			j.program = func(s programStreams) int {
				if s.in != nil {
					t.Error("it has an input")
				}
				fmt.Fprint(s.out, "epoch 1\n")
				return 0
			}
			streams, out, errOut := TestIOStreams("hello")
			o := &attachOptions{podTarget: podTarget{factory: j.serve(t, streams), rank: -1}, noStdin: tc.noStdin}
			if err := runAttach(t.Context(), o, "sft"); err != nil || out.String() != "epoch 1\n" || !strings.Contains(errOut.String(), tc.says) {
				t.Errorf("error %v, stdout %q, stderr %q", err, out, errOut)
			}
		})
	}
}

func TestCtrlCEndsAttachAndNotTheJob(t *testing.T) {
	j := newOneJob(t)
	ctx, interrupt := context.WithCancel(t.Context())
	left := make(chan struct{})
	j.program = func(programStreams) int {
		interrupt()
		<-left
		return 0
	}
	streams, _, errOut := TestIOStreams("")
	err := runAttach(ctx, &attachOptions{podTarget: podTarget{factory: j.serve(t, streams), rank: -1}}, "sft")
	close(left)
	if exitCode(err) != exitNotFinished || !isA[*quietError](err) || !strings.Contains(errOut.String(), "gpuctl attach sft -n team") {
		t.Errorf("error %v, stderr %q", err, errOut)
	}
}

func TestWhatCannotBeAttachedTo(t *testing.T) {
	t.Run("a job that waits", func(t *testing.T) {
		j := newOneJob(t)
		j.pod.Status, j.pod.Spec.NodeName = corev1.PodStatus{Phase: corev1.PodPending}, ""
		if _, _, err := attachTo(t, j, 0); err == nil || !strings.Contains(err.Error(), "no pod of job sft runs") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("a job that has ended", func(t *testing.T) {
		j := newOneJob(t)
		endPod(j.pod, 0)
		if _, _, err := attachTo(t, j, 0); err == nil || !strings.Contains(err.Error(), "no pod of job sft runs") {
			t.Errorf("error %v", err)
		}
	})
}
