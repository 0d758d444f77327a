package reason

import (
	"fmt"

	"g8s.host/gpu-scheduler/pkg/gpuquota"
)

// Reasons of GPUQuotas for pods.
var (
	QuotaUsed = &Reason{
		Text: "quota: %s GPUs of GPUQuota %s are in use, and it asks for %d more", Cause: GPUQuotaReached,
		Message: "%[1]s GPUs that the namespace may have are in use or promised, and the job asks for %[3]s more (GPUQuota %[2]s)",
		Advice: []Advice{
			waitAdvice("wait: it is tried again when a job that counts in this quota ends"),
			{Action: SetField, Field: FieldGPU, Text: "ask for fewer GPUs"},
			inspectAdvice("see who shares the quota; the administrators set it", "gpuctl describe quota %[2]s"),
		},
	}
	QuotaTooSmall = &Reason{
		Text: "quota: GPUQuota %s allows %d GPUs, and it asks for %d", Cause: GPUQuotaReached, Never: true,
		Message: "the namespace may have %[2]s GPUs, and the job asks for %[3]s: it never starts (GPUQuota %[1]s)",
		Advice: []Advice{
			{Action: SetField, Field: FieldGPU, Text: "ask for fewer GPUs"},
			inspectAdvice("see who shares the quota; the administrators set it", "gpuctl describe quota %[1]s"),
		},
	}
	TypeOverQuota = &Reason{
		Code: "type_over_quota", Text: "node(s) have a GPU type of which a GPUQuota allows the namespace no more", Cause: GPUQuotaReached,
		Message: "the namespace may have no more GPUs of the type that the nodes have",
		Advice: []Advice{
			waitAdvice("wait: it is tried again when a job that counts in this quota ends"),
			{Action: SetField, Field: FieldType, Text: "accept other GPU types"},
			inspectAdvice("see which quotas there are; the administrators set them", "gpuctl get gpuquotas"),
		},
	}
	GuaranteedToOthers = &Reason{
		Code: "guaranteed_to_others", Text: "node(s) are promised to pods that a GPUQuota guarantees their GPUs", Cause: Busy,
		Message: "GPUs that are about to be free go to others, to whom they are guaranteed, and the job would have more than its namespace is guaranteed",
		Advice: []Advice{
			waitAdvice("wait"),
			inspectAdvice("see who is guaranteed how many GPUs", "gpuctl get gpuquotas"),
		},
	}
	// QuotaGuarded applies when only their min-runtime prevents the eviction of borrowers for a pod.
	QuotaGuarded = &Reason{
		Text: "quota: pods that borrow its GPUs have not run for their min-runtime, the first of them until %s", Late: true, Cause: Busy,
		Message: "the GPUs that the namespace is guaranteed are borrowed by pods that may not be evicted before they have run for their min-runtime, the first of them until %[1]s",
		Advice:  []Advice{waitAdvice("wait: it is tried again then")},
	}
	// QuotaBudgeted applies when only their PodDisruptionBudgets prevent the eviction of borrowers for a pod.
	QuotaBudgeted = &Reason{
		Text: "quota: PodDisruptionBudgets keep pods that borrow its GPUs", Late: true, Cause: Busy,
		Message: "the GPUs that the namespace is guaranteed are borrowed by pods that PodDisruptionBudgets keep",
		Advice: []Advice{
			waitAdvice("wait: it is tried again when pods of the pool change, and within some minutes"),
			{Action: AskAdministrators, Text: "ask the administrators whether these budgets may keep what is borrowed"},
		},
	}
	// QuotaKeptOut applies to a single pod when borrowers could be evicted for it, but another plugin would still reject its place. It includes that
	// plugin's text.
	QuotaKeptOut = &Reason{
		Text: "quota: nobody leaves for it who borrows its GPUs, which would be in vain: %s", Late: true, Cause: RejectedByScheduler,
		Message: "nobody who borrows the GPUs that the namespace is guaranteed leaves for the job, which could not start in their places: %[1]s",
		Advice: []Advice{
			waitAdvice("wait: it is tried again each minute"),
			{Action: Resubmit, Text: "change what keeps the job out, such as its volumes, its topology spread or its affinity to other pods, and submit it again"},
		},
	}
)

// KeptOutText describes why pods are rejected although others could be evicted for them: a gang, or a single pod.
func KeptOutText(alone bool, why string) string {
	if alone {
		return QuotaKeptOut.Text.FormatText(why)
	}
	return GangKeptOut.Text.FormatText(why)
}

// QuotaExcessText describes which quota leaves pods without a node.
func QuotaExcessText(e *gpuquota.Excess) string {
	if e.Asked > e.Max {
		return QuotaTooSmall.Text.FormatText(e.Quota, e.Max, e.Asked)
	}
	return QuotaUsed.Text.FormatText(fmt.Sprintf("%d of %d", e.Used, e.Max), e.Quota, e.Asked)
}
