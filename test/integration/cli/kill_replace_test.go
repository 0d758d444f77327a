package cli

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// sendingYAML is a job with a folder that is sent, and a claim.
const sendingYAML = `kind: training
job: {name: sft, workdir: code}
environment: {image: busybox, command: [sleep, "60"]}
resources: {cpu: 1, memory: 1Gi}
storage:
  workdirs:
  - {mountPath: /data, size: 1Gi}
`

// replaceSteps are those of making a Job again at which somebody may be stopped.
var replaceSteps = map[string]struct {
	// after is the kind whose creation has taken place before, "" for none; asks is what is asked for then, for the nth time.
	after string
	asks  func(*http.Request) bool
	nth   int
	// there says that there is a Job then.
	there bool
}{
	"before anything is kept":       {"", func(r *http.Request) bool { return isCreationOf("leases", r) }, 1, true},
	"with one part kept":            {"leases", isPatchOfPart, 2, true},
	"before the old one goes":       {"", func(r *http.Request) bool { return isDeletionIn("jobs", r) }, 1, true},
	"before the new one comes":      {"", func(r *http.Request) bool { return isCreationOf("jobs", r) }, 1, false},
	"before its name is reserved":   {"jobs", func(r *http.Request) bool { return isCreationOf("leases", r) }, 1, true},
	"before it has what is its own": {"jobs", isPatchOfPart, 1, true},
	"with one part its own":         {"jobs", isPatchOfPart, 2, true},
	"before the keeping ends":       {"jobs", func(r *http.Request) bool { return isDeletionIn("leases", r) }, 2, true},
}

func isDeletionIn(plural string, r *http.Request) bool {
	return r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/"+plural+"/")
}

func isPatchOfPart(r *http.Request) bool {
	part := strings.Contains(r.URL.Path, "/configmaps/") || strings.Contains(r.URL.Path, "/persistentvolumeclaims/")
	return r.Method == http.MethodPatch && part
}

// nthAfter recognises the nth of such requests after the creation of a kind.
func nthAfter(plural string, asks func(*http.Request) bool, nth int) func(*http.Request) bool {
	made, seen := plural == "", 0
	return func(r *http.Request) bool {
		if made && asks(r) {
			seen++
		}
		made = made || isCreationOf(plural, r)
		return seen == nth
	}
}

// TestAKilledReplaceLeavesNothingWithoutAnOwner kills gpuctl at each step of making a Job again. What belongs to the job has an
// owner that is there, whatever is done next to the job ends what was kept, and its data stays.
func TestAKilledReplaceLeavesNothingWithoutAnOwner(t *testing.T) {
	nexts := map[string]struct {
		args []string
		// needsJob says that it wants the Job to be there, deletes that it removes it.
		needsJob, deletes bool
		// makes says that it is about a Job which is not there.
		makes bool
	}{
		"apply --replace makes it whole": {args: []string{"apply", "--replace", "-f"}},
		"create makes it whole":          {args: []string{"create", "-f"}},
		"retry makes it whole":           {args: []string{"retry", "sft"}, needsJob: true},
		"resume makes it whole":          {args: []string{"resume", "sft"}, makes: true},
		"delete removes all":             {args: []string{"delete", "sft", "--wait=false"}, deletes: true},
		"delete --all removes all":       {args: []string{"delete", "--all", "-y", "--wait=false"}, deletes: true},
		"delete -f removes all":          {args: []string{"delete", "--wait=false", "-f"}, deletes: true},
	}
	for when, step := range replaceSteps {
		for name, next := range nexts {
			if next.needsJob && !step.there || (next.args[0] == "create" || next.makes) && step.there {
				continue
			}
			t.Run(when+" "+name, func(t *testing.T) {
				s := newSession(t)
				path := s.sendingJob()
				claim := s.onlyClaim()
				s.killWhen(nthAfter(step.after, step.asks, step.nth), "", "apply", "--replace", "-f", path)
				s.kubeconfig = server.kubeconfig
				s.wantOwners(false)
				args := next.args
				if last := args[len(args)-1]; last == "-f" {
					args = append(append([]string{}, args...), path)
				}
				if args[0] == "retry" {
					s.expect(0, "", "", "cancel", "sft")
				}
				if next.makes {
					s.expect(3, "gpuctl resume sft -n "+s.namespace+" shows its Job", "", "why", "sft")
					args = append(slices.Clone(args), "--digest", s.digest("sft"))
				}
				s.expect(0, "", "", args...)
				s.wantNothingKnown()
				if next.deletes {
					s.wantNothingOwns()
					return
				}
				s.wantOwners(true)
				if now := s.onlyClaim(); now != claim {
					t.Errorf("the claim was made again, so its data is lost")
				}
			})
		}
	}
}

// TestAKilledReplaceSaysWhyTheJobWaits: a Job that was made again and not let go is paused, and says why and what to do; resuming it
// takes that away, as making it again to the end does.
func TestAKilledReplaceSaysWhyTheJobWaits(t *testing.T) {
	s := newSession(t)
	path := s.sendingJob()
	step := replaceSteps["before the keeping ends"]
	s.killWhen(nthAfter(step.after, step.asks, step.nth), "", "apply", "--replace", "-f", path)
	s.kubeconfig = server.kubeconfig
	for language, want := range map[string]string{
		"en": "it is made again, and the pods of its last run had not ended; gpuctl resume lets it run again",
		"zh": "它被重新创建时，上一次运行的 Pod 还没有结束；用 gpuctl resume 让它继续运行",
	} {
		if said := s.expect(0, "", "", "describe", "sft", "--lang", language).stdout; !strings.Contains(said, want) {
			t.Errorf("it says\n%swithout %q", said, want)
		}
	}
	for _, args := range [][]string{{"resume", "sft"}, {"apply", "--replace", "-f", path}} {
		s.expect(0, "", "", args...)
		job, err := client.BatchV1().Jobs(s.namespace).Get(background, "sft", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		why, noted := job.Annotations["g8s.host/paused-because"]
		if noted || *job.Spec.Suspend {
			t.Errorf("after %v the job is suspended: %t, because %q", args, *job.Spec.Suspend, why)
		}
		s.store(path, strings.Replace(sendingYAML, `"60"`, `"120"`, 1)) // for the next
	}
}

// sendingJob creates the job, and returns the path of a file with a change that makes it again.
func (s *session) sendingJob() string {
	s.Helper()
	path := s.file("job.yaml", sendingYAML)
	folder := filepath.Join(filepath.Dir(path), "code")
	if err := os.Mkdir(folder, 0o755); err != nil {
		s.Fatal(err)
	}
	s.store(filepath.Join(folder, "train.py"), "print(1)")
	s.expect(0, "", "", "create", "-f", path)
	s.store(path, strings.Replace(sendingYAML, `"60"`, `"90"`, 1))
	return path
}

// owners are the objects of the namespace that parts of jobs can belong to.
func (s *session) owners() map[types.UID]string {
	s.Helper()
	out := map[types.UID]string{}
	jobs, err := client.BatchV1().Jobs(s.namespace).List(background, metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for _, job := range jobs.Items {
		out[job.UID] = "job"
	}
	leases, err := client.CoordinationV1().Leases(s.namespace).List(background, metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for _, lease := range leases.Items {
		if strings.HasPrefix(lease.Name, "gpuctl-replace-") {
			out[lease.UID] = "keeper"
		}
	}
	return out
}

// store writes a file at a path.
func (s *session) store(path, text string) {
	s.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
}

// parts are the owners of all that belongs to jobs of the namespace, by its name.
func (s *session) parts() map[string][]metav1.OwnerReference {
	s.Helper()
	ours := metav1.ListOptions{LabelSelector: "g8s.host/job"}
	out := map[string][]metav1.OwnerReference{}
	maps, err := client.CoreV1().ConfigMaps(s.namespace).List(background, ours)
	if err != nil {
		s.Fatal(err)
	}
	for _, part := range maps.Items {
		out[part.Name] = part.OwnerReferences
	}
	claims, err := client.CoreV1().PersistentVolumeClaims(s.namespace).List(background, ours)
	if err != nil {
		s.Fatal(err)
	}
	for _, part := range claims.Items {
		out[part.Name] = part.OwnerReferences
	}
	return out
}

// wantOwners demands that all that belongs to the job has an owner that is there, and if it is whole, that this is its Job alone.
func (s *session) wantOwners(whole bool) {
	s.Helper()
	owners, parts := s.owners(), s.parts()
	if len(parts) != 2 {
		s.Errorf("the job has %d parts, want its folder and its claim: %v", len(parts), parts)
	}
	for name, references := range parts {
		var living []string
		for _, reference := range references {
			if kind := owners[reference.UID]; kind != "" {
				living = append(living, kind)
			}
		}
		if len(living) == 0 || whole && (len(references) != 1 || living[0] != "job") {
			s.Errorf("%s belongs to %v, of which there are %v", name, references, living)
		}
	}
	for _, kind := range owners {
		if whole && kind == "keeper" {
			s.Error("the job is whole, and what kept its parts is still there")
		}
	}
}

// wantNothingOwns demands that nothing is left that parts of the job could belong to, so that Kubernetes removes them.
func (s *session) wantNothingOwns() {
	s.Helper()
	owners := s.owners()
	if len(owners) > 0 {
		s.Errorf("there is still %v", owners)
	}
	for name, references := range s.parts() {
		if len(references) == 0 {
			s.Errorf("%s belongs to nobody, and stays", name)
		}
	}
}

func (s *session) onlyClaim() types.UID {
	s.Helper()
	claims, err := client.CoreV1().PersistentVolumeClaims(s.namespace).List(background, metav1.ListOptions{})
	if err != nil || len(claims.Items) != 1 {
		s.Fatalf("there are %d claims, want one (%v)", len(claims.Items), err)
	}
	return claims.Items[0].UID
}
