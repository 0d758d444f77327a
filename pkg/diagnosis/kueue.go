package diagnosis

import (
	"regexp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// explainHeldByKueue explains a job that Kueue keeps suspended, in Kueue's words where the user may read its Workload.
func explainHeldByKueue(f *Facts) Finding {
	out := Finding{Cause: reason.HeldByKueue, Message: phrase.FromEnglish(f.Job.Message)}
	look := "kubectl -n " + f.Job.Namespace + " get workloads.kueue.x-k8s.io"
	out.Steps = []Step{
		waitStep("wait: Kueue admits it when its queue has room, and pods that are made then still wait for nodes"),
		inspectStep(phrase.Textf("see what is in Kueue's queues"), look),
	}
	if workload := inventory.KueueWorkloadOf(f.Space.KueueWorkloads, &f.Job.Job); workload != nil {
		if active, set, _ := unstructured.NestedBool(workload.Object, "spec", "active"); set && !active {
			allow := "kubectl -n " + f.Job.Namespace + " patch workloads.kueue.x-k8s.io " + workload.GetName() + " --type=merge -p '{\"spec\":{\"active\":true}}'"
			out.Message = out.Message.Addf(": its Workload %s is set to be inactive", workload.GetName())
			out.Steps = []Step{{Action: reason.Inspect, Kind: "Workload", Name: workload.GetName(), Command: allow, Message: phrase.Textf("let Kueue admit it again: %s", allow)}}
			return out
		}
		if says := kueueVerdict(workload); says != "" {
			out.Message = withKueueVerdict(out.Message, says)
		}
	}
	return out
}

// quotaShort is how Kueue says what its quota lacks for a Workload.
var quotaShort = regexp.MustCompile(`insufficient unused quota for (\S+) in flavor (\S+), (\S+) more needed`)

// withKueueVerdict says when Kueue admits a job, as far as its words tell, and else what it says.
func withKueueVerdict(held phrase.Text, says string) phrase.Text {
	if lacks := quotaShort.FindStringSubmatch(says); lacks != nil {
		return held.Addf(": when %s more of %s are unused in its quota of flavor %s", lacks[3], lacks[1], lacks[2])
	}
	return held.Addf(": %s", says)
}

// kueueVerdict returns why Kueue has reserved no quota for a Workload, or waits after it has; "" if it has not said yet.
func kueueVerdict(workload *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(workload.Object, "status", "conditions")
	for _, kind := range []string{"QuotaReserved", "Admitted"} {
		for _, condition := range conditions {
			fields, _ := condition.(map[string]any)
			message, _ := fields["message"].(string)
			if fields["type"] == kind && fields["status"] == "False" && message != "" {
				return message
			}
		}
	}
	return ""
}
