package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// sessionOf is a session of a job that is there, the objects that it deletes from, and what it says.
func sessionOf(t *testing.T, j *oneJob) (s *session, api client.Client, said func() (out, errOut string)) {
	t.Helper()
	streams, stdout, stderr := TestIOStreams("")
	f := j.serve(t, streams)
	kubernetes, err := f.newKubernetesClient()
	if err != nil {
		t.Fatal(err)
	}
	api = fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(j.job.DeepCopy()).Build()
	s = &session{factory: f, client: kubernetes, writer: submit.NewClient(api), namespace: "team", uid: "job-1"}
	s.Document = workload.Document{Kind: workload.KindTraining, Name: "sft"}
	return s, api, func() (string, string) { return stdout.String(), stderr.String() }
}

func TestASessionEndsItsJob(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods/attach"}, "sft-abcde", nil)
	waits := func(j *oneJob) { j.pod = nil }
	failed := func(j *oneJob) {
		endPod(j.pod, 9)
		j.output = "2026-11-01T12:00:00Z out of memory\n"
		j.job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded"}}
	}
	tests := map[string]struct {
		job       func(*oneJob)
		timeout   time.Duration
		patience  time.Duration
		interrupt bool
		reading   bool
		stdout    io.Writer
		down      bool
		uid       string
		code      int
		out       string
		errOut    string
		left      bool
	}{
		"the program ends":          {job: func(*oneJob) {}, errOut: "training/sft deleted\n"},
		"the program ends with 5":   {job: func(j *oneJob) { j.program = echo(5) }, code: 5, out: "got ", errOut: "training/sft deleted\n"},
		"it wrote something before": {job: func(j *oneJob) { j.output = "hello\r\n" }, out: "hello\r\n", errOut: "deleted"},
		"it writes all before it is connected": {job: func(j *oneJob) { j.output, j.late, j.program = "hello", "world", mute },
			out: "helloworld", errOut: "deleted"},
		"Ctrl-C while it waits":        {job: waits, interrupt: true, code: exitInterrupted, errOut: "training/sft deleted\n"},
		"Ctrl-C while its pod is read": {job: func(*oneJob) {}, interrupt: true, reading: true, code: exitInterrupted, errOut: "training/sft deleted\n"},
		"nobody reads what it prints": {job: func(j *oneJob) { j.program = endless }, stdout: brokenPipe{},
			code: exitNotFinished, errOut: "training/sft deleted\n"},
		"nobody reads what it printed before": {job: func(j *oneJob) { j.output = "hello"; j.program = endless }, stdout: brokenPipe{},
			code: exitNotFinished, errOut: "training/sft deleted\n"},
		"it waits for too long":    {job: waits, timeout: time.Millisecond, code: exitTimeout, errOut: "training/sft deleted\n"},
		"it failed before":         {job: failed, code: 9, out: "out of memory", errOut: "training/sft deleted\n"},
		"nobody may attach":        {job: func(j *oneJob) { j.refuse = forbidden }, code: exitForbidden, errOut: "training/sft deleted\n"},
		"another job has its name": {job: func(*oneJob) {}, uid: "job-0", left: true},
		"the connection is lost": {job: func(j *oneJob) { j.program = func(programStreams) int { return -1 } },
			patience: 50 * time.Millisecond, code: exitNotFinished, left: true},
		"the cluster does not answer": {job: func(*oneJob) {}, down: true, code: exitNotFinished, left: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			j := newOneJob(t)
			tc.job(j)
			s, api, said := sessionOf(t, j)
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			s.timeout, s.outcomeTimeout = tc.timeout, cmp.Or(tc.patience, containerEndTimeout)
			switch {
			case tc.reading:
				j.read = interrupt
			case tc.interrupt:
				j.watched = interrupt
			}
			if tc.stdout != nil {
				s.factory.IO.Out = tc.stdout
			}
			if tc.uid != "" {
				s.uid = "job-0"
			}
			if tc.down {
				s.factory.config = func() (*rest.Config, error) { return &rest.Config{Host: "http://127.0.0.1:1"}, nil }
			}
			err := s.runToEnd(ctx)
			out, errOut := said()
			if exitCode(err) != tc.code || !strings.Contains(out, tc.out) || !strings.Contains(errOut, tc.errOut) {
				t.Errorf("error %v with code %d, want %d\nstdout %q, stderr %q", err, exitCode(err), tc.code, out, errOut)
			}
			gone := apierrors.IsNotFound(api.Get(t.Context(), client.ObjectKeyFromObject(j.job), &batchv1.Job{}))
			if gone == tc.left {
				t.Errorf("the job is gone: %t, and should be: %t", gone, !tc.left)
			}
		})
	}
}

// mute prints nothing.
func mute(programStreams) int { return 0 }

// endless prints until it cannot.
func endless(streams programStreams) int {
	for {
		if _, err := streams.out.Write([]byte("again\n")); err != nil {
			return 1
		}
		time.Sleep(time.Millisecond)
	}
}

// brokenPipe is a stream whose reader has gone.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// stuckPipe is a stream whose reader does not read.
type stuckPipe chan struct{}

func (p stuckPipe) Write(data []byte) (int, error) { <-p; return len(data), nil }

// TestCtrlCWaitsForNoReader of what the program prints.
func TestCtrlCWaitsForNoReader(t *testing.T) {
	for name, output := range map[string]string{"before": "hello", "now": ""} {
		t.Run(name, func(t *testing.T) {
			j := newOneJob(t)
			j.output, j.program = output, endless
			s, _, said := sessionOf(t, j)
			s.outcomeTimeout = containerEndTimeout
			stuck := make(stuckPipe)
			defer close(stuck)
			s.factory.IO.Out = stuck
			ctx, interrupt := context.WithCancel(t.Context())
			time.AfterFunc(200*time.Millisecond, interrupt)
			err := s.runToEnd(ctx)
			if _, errOut := said(); exitCode(err) != exitInterrupted || !strings.Contains(errOut, "training/sft deleted") {
				t.Errorf("error %v with code %d, said %q", err, exitCode(err), errOut)
			}
		})
	}
}

func TestASessionIsRefusedBeforeItWaits(t *testing.T) {
	for name, tc := range map[string]struct {
		rights *authorizationv1.SubjectAccessReviewStatus
		code   int
	}{
		"allowed":     {rights: &authorizationv1.SubjectAccessReviewStatus{Allowed: true}},
		"not allowed": {rights: &authorizationv1.SubjectAccessReviewStatus{}, code: exitForbidden},
		"not told":    {},
	} {
		t.Run(name, func(t *testing.T) {
			j := newOneJob(t)
			j.rights = tc.rights
			s, _, _ := sessionOf(t, j)
			if err := s.checkAttachAccess(t.Context()); exitCode(err) != tc.code {
				t.Errorf("error %v, want exit code %d", err, tc.code)
			}
		})
	}
}

func TestRunPrintsWhatASessionIs(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	code, out, errOut := gpuctl(t, "", "run", "--dry-run", "-it", "--image=i", "--gpu=1", "--name=sh")
	want := `kind: training
job:
  name: sh
  retries: 0
environment:
  image: i
  command: [sh, -c, command -v bash >/dev/null 2>&1 && exec bash || exec sh]
  stdin: true
  tty: true
resources:
  gpu: 1
`
	if code != 0 || out != want {
		t.Errorf("code %d, %s, printed\n%s\nwant\n%s", code, errOut, out, want)
	}
	code, out, _ = gpuctl(t, "", "run", "--dry-run", "-i", "--image=i", "--retries=2", "python", "-i")
	for _, line := range []string{"retries: 2", "command: [python, -i]", "stdin: true"} {
		if code != 0 || !strings.Contains(out, line) || strings.Contains(out, "tty") {
			t.Errorf("code %d, no %q in\n%s", code, line, out)
		}
	}
}

func TestWhatASessionRefuses(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for args, says := range map[string]string{
		"-t":          "standard input is no terminal: leave out -t",
		"-it":         "standard input is no terminal: leave out -t",
		"-i --wait":   "leave out --wait and --attach",
		"-i --attach": "leave out --wait and --attach",
		"-i -o name":  "leave out -o",
		"":            "or -it for a shell",
	} {
		code, out, errOut := gpuctl(t, "", append([]string{"run", "--image=i"}, strings.Fields(args)...)...)
		if code != exitUsage || out != "" || !strings.Contains(errOut, says) {
			t.Errorf("%q: code %d, stdout %q, stderr %q", args, code, out, errOut)
		}
	}
}

func TestALostConnectionSaysHowToComeBack(t *testing.T) {
	err := &connectionLostError{namespace: "team", job: "sft", cause: fmt.Errorf("broken pipe")}
	want := "the connection to job sft was lost: broken pipe\n" +
		"The job goes on. Come back to it: gpuctl attach sft -n team\nEnd it: gpuctl delete job sft -n team"
	if got := errorMessage(err).String(); got != want {
		t.Errorf("message %q, want %q", got, want)
	}
}
