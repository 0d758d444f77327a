package program

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
)

func TestTheVersionIsThatOfTheMakefile(t *testing.T) {
	before := release
	t.Cleanup(func() { release = before })
	release = "v1.2.3"
	if got := Version(); got != release {
		t.Errorf("got %q, want %q", got, release)
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	const flag = "-X g8s.host/gpu-scheduler/pkg/program.release=$(VERSION)"
	if !strings.Contains(string(makefile), flag) {
		t.Errorf("the Makefile does not set it by %s", flag)
	}
}

// TestHowAProgramEnds: well, with an error, or because a signal asked for it.
func TestHowAProgramEnds(t *testing.T) {
	tests := map[string]struct {
		run  func(*cobra.Command, []string) error
		want int
	}{
		"well":        {func(*cobra.Command, []string) error { return nil }, 0},
		"by an error": {func(*cobra.Command, []string) error { return errors.New("no") }, 1},
		"by a signal": {func(cmd *cobra.Command, _ []string) error {
			if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
				return err
			}
			<-cmd.Context().Done()
			return nil
		}, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cmd := New(&cobra.Command{Use: "program", RunE: tc.run})
			cmd.SetArgs(nil)
			if got := Main(cmd); got != tc.want {
				t.Errorf("exit code %d, want %d", got, tc.want)
			}
		})
	}
}

func TestConfigNamesTheProgram(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "config")
	content := "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a}}], " +
		"clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]}"
	if err := os.WriteFile(kubeconfig, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := UnlimitedConfig(kubeconfig, "gpu-thing")
	if err != nil || config.QPS >= 0 || config.UserAgent != "gpu-thing/"+Version() {
		t.Errorf("got %+v, %v", config, err)
	}
	if _, err := RESTConfig(kubeconfig+"x", "gpu-thing"); err == nil || !strings.Contains(err.Error(), "give --kubeconfig") {
		t.Errorf("without a file the error is %v", err)
	}
}

func TestLoggerRefusesOtherFormats(t *testing.T) {
	for _, format := range []string{"json", "text"} {
		if _, err := NewLogger(format, io.Discard); err != nil {
			t.Error(err)
		}
	}
	if _, err := NewLogger("xml", io.Discard); err == nil || !strings.Contains(err.Error(), `"xml", want json or text`) {
		t.Errorf("the error of another format is %v", err)
	}
}
