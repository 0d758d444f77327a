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

// TestAKilledCreateLeavesAJobThatCanBeCompletedOrDeleted kills gpuctl, by a signal that cannot be handled, between the
// creation of the Deployment and of its Service.
func TestAKilledCreateLeavesAJobThatCanBeCompletedOrDeleted(t *testing.T) {
	for name, next := range map[string]struct {
		args    []string
		objects int
	}{
		"apply completes it":  {[]string{"apply", "-f", "-"}, 2},
		"delete removes it":   {[]string{"delete", "notebook/lab"}, 0},
		"get shows it":        {[]string{"get", "job", "lab"}, 1},
		"delete -f takes all": {[]string{"delete", "-f", "-"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSession(t)
			s.killBetween("deployments", "services")
			s.wantObjects(1)
			s.kubeconfig = server.kubeconfig
			s.expect(0, "", notebook("lab"), next.args...)
			s.wantObjects(next.objects)
		})
	}
}

// killBetween starts a create in a process of its own, and kills it when it asks for the second kind of object.
func (s *session) killBetween(first, second string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	var made bool
	reached := make(chan struct{})
	s.through(&between{meddle: func(_ http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		made = made || isCreationOf(first, r)
		if !made || !isCreationOf(second, r) {
			return false
		}
		close(reached)
		<-ctx.Done()
		return true
	}})
	command := exec.CommandContext(ctx, os.Args[0], "--kubeconfig", s.kubeconfig, "-n", s.namespace, "create", "-f", "-")
	command.Env = append(os.Environ(), beGpuctl+"=1")
	command.Stdin = strings.NewReader(notebook("lab"))
	if err := command.Start(); err != nil {
		s.Fatal(err)
	}
	select {
	case <-reached:
	case <-ctx.Done():
		s.Fatal("gpuctl did not ask for the second object in a minute")
	}
	if err := command.Process.Kill(); err != nil {
		s.Fatal(err)
	}
	_ = command.Wait() // it was killed, which is an error
}
