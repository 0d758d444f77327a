package whatif

import (
	"cmp"
	"errors"
	"regexp"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/quota"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/submit"
)

// judged adds the jobs that the API server refuses, and restores the order of the requested jobs.
func (a Answer) judged(jobs [][]client.Object, verdicts []submit.Verdict) Answer {
	order := map[[3]string]int{}
	for i, objects := range jobs {
		top := objects[0]
		order[keyOf(top.GetNamespace(), top.GetLabels()[names.LabelJobType], top.GetLabels()[names.LabelJob])] = i
		if verdicts[i].Refused != nil {
			a.Jobs = append(a.Jobs, Job{Report: refusal(top, verdicts[i].Refused)})
		}
		a.Said = append(a.Said, verdicts[i].Unasked...)
	}
	for _, sentence := range a.Said {
		a.Unasked = append(a.Unasked, sentence.String())
	}
	slices.SortStableFunc(a.Jobs, func(x, y Job) int {
		return cmp.Compare(order[keyOf(x.Namespace, x.Kind, x.Job)], order[keyOf(y.Namespace, y.Kind, y.Job)])
	})
	return a
}

func keyOf(namespace, kind, name string) [3]string { return [3]string{namespace, kind, name} }

// refusal explains why the API server refuses a job, as gpuctl why would for the created job.
func refusal(top client.Object, refused error) diagnosis.Report {
	facts := diagnosis.Facts{}
	facts.Job.Namespace, facts.Job.Name = top.GetNamespace(), top.GetLabels()[names.LabelJob]
	facts.Job.Kind, facts.Job.Status = top.GetLabels()[names.LabelJobType], inventory.StatusPending
	facts.Job.Trouble = inventory.Trouble{Reason: "FailedCreate", Message: plain(refused)}
	report := diagnosis.Diagnose(facts)
	report.Unread = nil // nothing was left out for lack of rights
	if isWithoutNamespace(refused) {
		report.Findings = []diagnosis.Finding{withoutNamespace(report.Cause, top.GetNamespace())}
	}
	var short *submit.QuotaError
	if errors.As(refused, &short) {
		finding := overQuota(short.Excess, top.GetNamespace())
		report.Cause, report.Findings = finding.Cause, []diagnosis.Finding{finding}
	}
	return report
}

func withoutNamespace(cause reason.Cause, namespace string) diagnosis.Finding {
	command := "kubectl create namespace " + namespace
	return diagnosis.Finding{
		Cause: cause, Says: phrase.Of("there is no namespace %s", namespace),
		Steps: []diagnosis.Step{{
			Action: reason.UseNamespace, Command: command, Says: phrase.Of("choose one that is there with -n, or have it made: %s", command),
		}},
	}.Worded()
}

func overQuota(excess quota.Excess, namespace string) diagnosis.Finding {
	out := diagnosis.Finding{Cause: reason.QuotaExceeded, Says: phrase.Of("it %s", excess.Says())}
	if !excess.Never {
		out.Steps = append(out.Steps, diagnosis.Step{
			Action: reason.Wait, Says: phrase.Of("wait until jobs of this namespace end, or end one that is not needed"),
		})
	}
	command := "gpuctl get quotas -n " + namespace
	out.Steps = append(out.Steps, diagnosis.Step{
		Action: reason.Inspect, Command: command, Says: phrase.Of("ask for less, or for a higher quota: %s", command),
	})
	return out.Worded()
}

// isWithoutNamespace reports whether an object was refused because its namespace does not exist.
func isWithoutNamespace(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return details != nil && details.Kind == "namespaces"
}

// ofAPod matches the prefix of a refusal with the name of a pod that will never exist.
var ofAPod = regexp.MustCompile(`^(?:pods|Pod) "[^"]*" is (?:forbidden|invalid): `)

// plain returns the API server's message without the name of the checked pod.
func plain(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return ofAPod.ReplaceAllString(status.Status().Message, "")
	}
	return err.Error()
}
