package cli

import (
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestOneOfTheJobsOfOneNameWins creates jobs of one name at the same moment, of each kind with each other: those that
// make a Service and those that make none.
func TestOneOfTheJobsOfOneNameWins(t *testing.T) {
	kinds := []string{"training", "inference", "notebook", "compute"}
	for i, first := range kinds {
		for _, second := range kinds[i:] {
			t.Run(first+" and "+second, func(t *testing.T) {
				t.Parallel()
				s := newSession(t)
				const racers = 6
				codes := make([]int, racers)
				var wait sync.WaitGroup
				for n := range racers {
					kind := []string{first, second}[n%2]
					wait.Go(func() {
						codes[n] = s.gpuctl(strings.Replace(training("race"), "training", kind, 1), "create", "-f", "-").code
					})
				}
				wait.Wait()
				slices.Sort(codes)
				if want := append([]int{0}, slices.Repeat([]int{4}, racers-1)...); !slices.Equal(codes, want) {
					t.Errorf("exit codes are %v, want %v", codes, want)
				}
				if got := s.gpuctl("", "get", "jobs", "-o", "name").stdout; strings.Count(got, "/race\n") != 1 {
					t.Errorf("the jobs are %q, want one", got)
				}
				s.wantIncomplete("race", false)
			})
		}
	}
}

// TestANameIsFreeAgainWithItsJob deletes only the top object, as kubectl would, where no garbage collector runs.
func TestANameIsFreeAgainWithItsJob(t *testing.T) {
	s := newSession(t)
	s.expect(0, "", training("again"), "create", "-f", "-")
	background := metav1.DeletePropagationBackground
	err := client.BatchV1().Jobs(s.namespace).Delete(t.Context(), "again", metav1.DeleteOptions{PropagationPolicy: &background})
	if err != nil {
		t.Fatal(err)
	}
	s.expect(0, "", notebook("again"), "create", "-f", "-")
	lease, err := client.CoordinationV1().Leases(s.namespace).Get(t.Context(), "gpuctl-job-again", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if owners := lease.OwnerReferences; len(owners) != 1 || owners[0].Kind != "Deployment" || *lease.Spec.HolderIdentity != "notebook/again" {
		t.Errorf("the name is held by %+v for %v", lease.Spec, owners)
	}
	s.expect(0, "", notebook("again"), "apply", "-f", "-")
}

// TestApplyReservesTheNameOfAJobThatHasNone, as one has that was made from rendered objects.
func TestApplyReservesTheNameOfAJobThatHasNone(t *testing.T) {
	s := newSession(t)
	s.expect(0, "", training("old"), "create", "-f", "-")
	leases := client.CoordinationV1().Leases(s.namespace)
	if err := leases.Delete(t.Context(), "gpuctl-job-old", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.expect(0, "", training("old"), "apply", "-f", "-")
	if _, err := leases.Get(t.Context(), "gpuctl-job-old", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if got := s.expect(0, "", training("old"), "apply", "-f", "-"); got.stdout != "training/old unchanged\n" {
		t.Errorf("stdout is %q", got.stdout)
	}
}
