package sandboxtest

import (
	"bytes"
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/pkg/sandbox"
)

func TestProgramsThatEndedAreToldOf(t *testing.T) {
	crashes := make(chan error, 2)
	crashes <- &sandbox.ExitError{Name: "gpu-controller", Reason: "exit status 1", Tail: "leader election lost", Code: 1}
	var out bytes.Buffer
	if err := ends(crashes, &out); err != nil {
		t.Errorf("the end of a leader is no error of the tests: %v", err)
	}
	if !strings.Contains(out.String(), "leader election lost") {
		t.Errorf("the end was not told:\n%s", &out)
	}
	crashes <- &sandbox.ExitError{Name: "gpu-controller", Reason: "exit status 2", Tail: "nil map", Code: 2}
	crashes <- &sandbox.ExitError{Name: "gpu-scheduler", Reason: "exit status 2", Tail: "index out of range", Code: 2}
	err := ends(crashes, &out)
	if err == nil || !strings.Contains(err.Error(), "nil map") || !strings.Contains(err.Error(), "index out of range") {
		t.Errorf("got error %v, want one of both panics", err)
	}
}
