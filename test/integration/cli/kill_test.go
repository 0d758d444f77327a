package cli

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	gpuctl "g8s.host/gpu-scheduler/cli"
)

// beGpuctl is the variable of the environment that makes the test binary gpuctl itself.
const beGpuctl = "TEST_BE_GPUCTL"

// runAsGpuctl ends the process as gpuctl would, if that is what it shall be.
func runAsGpuctl() {
	if os.Getenv(beGpuctl) != "" {
		os.Exit(gpuctl.Main(os.Args, gpuctl.SystemStreams()))
	}
}

// TestAKilledCreateLeavesAJobThatCanBeCompletedOrDeleted kills gpuctl, by a signal that cannot be handled, at each step of
// a creation: between the Deployment, its reservation of the name, its Service, and the note that it is whole.
func TestAKilledCreateLeavesAJobThatCanBeCompletedOrDeleted(t *testing.T) {
	steps := map[string]struct {
		first, second string
		objects       int
	}{
		"before the name is reserved": {"deployments", "leases", 1},
		"before the Service":          {"leases", "services", 1},
		"before it is noted as whole": {"services", "deployments/notebook-lab", 2},
	}
	nexts := map[string]struct {
		args    []string
		objects int
		whole   bool
	}{
		"create completes it": {[]string{"create", "-f", "-"}, 2, true},
		"apply completes it":  {[]string{"apply", "-f", "-"}, 2, true},
		"delete removes it":   {[]string{"delete", "notebook/lab"}, 0, false},
		"delete -f takes all": {[]string{"delete", "-f", "-"}, 0, false},
	}
	for when, step := range steps {
		for name, next := range nexts {
			t.Run(when+" "+name, func(t *testing.T) {
				t.Parallel()
				s := newSession(t)
				s.killBetween(step.first, step.second)
				s.kubeconfig = server.kubeconfig
				s.wantObjects(step.objects)
				s.wantIncomplete("lab", true)
				s.expect(0, "", notebook("lab"), next.args...)
				s.wantObjects(next.objects)
				if next.whole {
					s.wantIncomplete("lab", false)
					s.expect(4, "already exists", notebook("lab"), "create", "-f", "-")
				}
			})
		}
	}
}

// TestAnotherJobDoesNotCompleteAnIncompleteOne keeps what was not asked for from being mixed into a job.
func TestAnotherJobDoesNotCompleteAnIncompleteOne(t *testing.T) {
	s := newSession(t)
	s.killBetween("leases", "services")
	s.kubeconfig = server.kubeconfig
	s.expect(4, "already exists", training("lab"), "create", "-f", "-")
	s.expect(4, "already exists", strings.Replace(notebook("lab"), "busybox", "other", 1), "create", "-f", "-")
	s.wantIncomplete("lab", true)
}

// wantIncomplete looks at what get and why say of a job.
func (s *session) wantIncomplete(job string, want bool) {
	s.Helper()
	for _, args := range [][]string{{"get", "job", job}, {"why", job}} {
		got := s.expect(0, "", "", args...)
		if strings.Contains(got.stdout, "Incomplete") != want {
			s.Errorf("gpuctl %s says, with incomplete being %t:\n%s", strings.Join(args, " "), want, got.stdout)
		}
	}
}

// killBetween starts a create in a process of its own, and kills it when, after the creation of the first kind of object,
// it asks for the creation of the second, or for a patch of it.
func (s *session) killBetween(first, second string) {
	s.Helper()
	var made bool
	s.killWhen(func(r *http.Request) bool {
		made = made || isCreationOf(first, r)
		return made && (isCreationOf(second, r) || isPatchOf(second, r))
	}, notebook("lab"), "create", "-f", "-")
}

// killWhen starts gpuctl in a process of its own, and kills it when it asks for something, which does not come about.
func (s *session) killWhen(asks func(*http.Request) bool, stdin string, args ...string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	reached := make(chan struct{})
	s.through(&between{meddle: func(_ http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		if !asks(r) {
			return false
		}
		close(reached)
		<-ctx.Done()
		return true
	}})
	command := exec.CommandContext(ctx, os.Args[0], append([]string{"--kubeconfig", s.kubeconfig, "-n", s.namespace}, args...)...)
	command.Env = append(os.Environ(), beGpuctl+"=1")
	command.Stdin = strings.NewReader(stdin)
	if err := command.Start(); err != nil {
		s.Fatal(err)
	}
	select {
	case <-reached:
	case <-ctx.Done():
		s.Fatal("gpuctl did not ask for it in a minute")
	}
	if err := command.Process.Kill(); err != nil {
		s.Fatal(err)
	}
	_ = command.Wait() // it was killed, which is an error
}
