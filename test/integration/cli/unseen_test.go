package cli

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	gpuctl "g8s.host/gpu-scheduler/cli"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// brokenOff leaves a job whose making again was broken off after its Job was deleted.
func brokenOff(t *testing.T) *session {
	t.Helper()
	s := newSession(t)
	path := s.sendingJob()
	step := replaceSteps["before the new one comes"]
	s.killWhen(nthAfter(step.after, step.asks, step.nth), "", "apply", "--replace", "-f", path)
	s.kubeconfig = server.kubeconfig
	return s
}

// digest is what whoever looks at the Job that would be made reads.
func (s *session) digest(job string) string {
	s.Helper()
	var seen struct {
		Items []struct {
			Digest string
			Object struct{ Kind string }
		}
	}
	got := s.expect(0, "", "", "resume", job, "--dry-run", "-o", "json")
	if err := json.Unmarshal([]byte(got.stdout), &seen); err != nil || len(seen.Items) != 1 || seen.Items[0].Object.Kind != "Job" {
		s.Fatalf("a look at the Job: %v\n%s", err, got.stdout)
	}
	return seen.Items[0].Digest
}

// wantNothingKnown demands that no Lease has a Job that could be made.
func (s *session) wantNothingKnown() {
	s.Helper()
	_, err := client.CoordinationV1().Leases(s.namespace).Get(background, "gpuctl-again-sft", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		s.Errorf("what is known of the job: %v, want that it is gone", err)
	}
}

// exchange changes the Job that the Lease has, as whoever may write Leases can.
func (s *session) exchange(old, fresh string) {
	s.Helper()
	leases := client.CoordinationV1().Leases(s.namespace)
	lease, err := leases.Get(background, "gpuctl-again-sft", metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	packed, err := base64.StdEncoding.DecodeString(lease.Annotations[names.AnnotationReplacement])
	if err != nil {
		s.Fatal(err)
	}
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		s.Fatal(err)
	}
	text, err := io.ReadAll(reader)
	if err != nil {
		s.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		s.Fatalf("there is no %s in %s", old, text)
	}
	var again bytes.Buffer
	writer := gzip.NewWriter(&again)
	s.must(writer.Write([]byte(strings.ReplaceAll(string(text), old, fresh))))
	s.must(nil, writer.Close())
	lease.Annotations[names.AnnotationReplacement] = base64.StdEncoding.EncodeToString(again.Bytes())
	s.must(leases.Update(background, lease, metav1.UpdateOptions{}))
}

// exchangeBeforeSecondLook exchanges the Job when gpuctl reads it for the second time.
func (s *session) exchangeBeforeSecondLook() func(http.ResponseWriter, *http.Request, http.Handler) bool {
	looks := 0
	return func(_ http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		if strings.HasSuffix(r.URL.Path, "/leases/gpuctl-again-sft") {
			if looks++; looks == 2 {
				s.exchange(`"90"`, `"9999"`)
			}
		}
		return false
	}
}

// answer runs gpuctl on a terminal, where a person answers.
func (s *session) answer(typed string, args ...string) result {
	streams, stdout, stderr := gpuctl.TestIOStreams("")
	streams.In, streams.InIsTerminal, streams.ErrIsTerminal, streams.ErrWidth = bytes.NewBufferString(typed), true, true, 100
	all := append([]string{"gpuctl", "--kubeconfig", s.kubeconfig, "-n", s.namespace}, args...)
	code := gpuctl.Run(s.Context(), gpuctl.NewFactory(streams), all)
	return result{code: code, stdout: stdout.String(), stderr: stderr.String()}
}

// TestNobodyResumesAJobThatTheyHaveNotSeen: in a pipe it is named by its digest, on a terminal it is shown.
func TestNobodyResumesAJobThatTheyHaveNotSeen(t *testing.T) {
	t.Run("in a pipe", func(t *testing.T) {
		s := brokenOff(t)
		s.expect(4, "gpuctl resume sft -n "+s.namespace+" --dry-run -o yaml", "", "resume", "sft")
		s.expect(4, "another Job than that with the digest sha256:00", "", "resume", "sft", "--digest", "sha256:00")
		s.expect(2, "name that job alone", "", "resume", "sft", "other", "--digest", "sha256:00")
		s.wantObjects(0)
		digest := s.digest("sft")
		s.exchange(`"90"`, `"9999"`)
		s.expect(4, "another Job than that with the digest "+digest, "", "resume", "sft", "--digest", digest)
		s.wantObjects(0)
		s.exchange(`"9999"`, `"90"`)
		s.expect(0, "", "", "resume", "sft", "--digest", digest)
		s.wantOwners(true)
		s.wantNothingKnown()
	})
	t.Run("on a terminal", func(t *testing.T) {
		s := brokenOff(t)
		for _, typed := range []string{"", "\n", "n\n"} {
			if got := s.answer(typed, "resume", "sft"); got.code != 2 {
				t.Errorf("with the answer %q the code is %d, want 2\n%s", typed, got.code, got.stderr)
			}
			s.wantObjects(0)
		}
		got := s.answer("y\n", "resume", "sft")
		if got.code != 0 || got.stdout != "training/sft made again, and resumed\n" {
			t.Errorf("the code is %d\n%s%s", got.code, got.stdout, got.stderr)
		}
		for _, want := range []string{"Lease gpuctl-again-sft in namespace " + s.namespace, "Command:     sleep 90\n", "kind: Job\n", "Go on? [y/N] "} {
			if !strings.Contains(got.stderr, want) {
				t.Errorf("it shows\n%swithout %q", got.stderr, want)
			}
		}
		if strings.Contains(got.stderr, "Reaches:") {
			t.Errorf("a job of gpuctl's reaches beyond itself:\n%s", got.stderr)
		}
		s.wantOwners(true)
	})
	t.Run("changed while it is looked at", func(t *testing.T) {
		s := brokenOff(t)
		s.through(&between{meddle: s.exchangeBeforeSecondLook()})
		if got := s.answer("y\n", "resume", "sft"); got.code != 4 || !strings.Contains(got.stderr, "has another Job than that with the digest") {
			t.Errorf("the code is %d\n%s", got.code, got.stderr)
		}
		s.wantObjects(0)
	})
}

// TestAJobOfAnotherNamespaceIsNotResumed, not even by who has seen it.
func TestAJobOfAnotherNamespaceIsNotResumed(t *testing.T) {
	s := brokenOff(t)
	s.exchange(`"namespace":"`+s.namespace+`"`, `"namespace":"kube-system"`)
	for _, args := range [][]string{{"resume", "sft"}, {"resume", "sft", "--dry-run"}, {"resume", "sft", "--digest", "sha256:00"}} {
		s.expect(4, "which gpuctl has not written there", "", args...)
	}
	if got := s.answer("y\n", "resume", "sft"); got.code != 4 {
		t.Errorf("on a terminal the code is %d\n%s", got.code, got.stderr)
	}
	s.expect(0, "", "", "delete", "sft", "--wait=false")
	s.wantNothingKnown()
}
