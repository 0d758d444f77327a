package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
)

type getGPUQuotasOptions struct{ listing[inventory.GPUQuota] }

func newGetGPUQuotasCmd(f *Factory) *cobra.Command {
	o := &getGPUQuotasOptions{}
	cmd := &cobra.Command{
		Use:     "gpuquotas [NAME]...",
		Aliases: []string{"gpuquota"},
		Short:   "List GPUQuotas: the GPUs of pools that namespaces are guaranteed, may have, and have",
		Long: "List GPUQuotas, which the scheduler keeps. MIN is guaranteed, MAX is the most that there may be. USED is what pods\n" +
			"hold, and BORROWED the part of it that goes back to whoever is guaranteed it. LENT is what others would leave of\n" +
			"MIN for it, WAITING what its jobs wait for. Who may not see the pods of all namespaces gets the numbers from\n" +
			"gpu-controller. gpuctl describe quota says who borrows; gpuctl get quotas lists those of Kubernetes.",
		Example: "  gpuctl get gpuquotas\n  gpuctl get gpuquotas -o yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.names = args
			reader, err := f.newReader()
			if err != nil {
				return err
			}
			quotas, err := reader.GPUQuotas(cmd.Context(), f.Now())
			if err != nil {
				return err
			}
			return o.printNamed(quotas)
		},
		ValidArgsFunction: completeGPUQuotas(f),
	}
	o.listing = listing[inventory.GPUQuota]{
		io: f.IO, now: f.Now, noun: "GPUQuota",
		columns: gpuQuotaColumns,
		name:    func(q inventory.GPUQuota) string { return q.Name },
		id:      func(q inventory.GPUQuota) string { return q.Name },
		print:   func(q inventory.GPUQuota) string { return "gpuquota/" + q.Name },
	}
	o.addListFlags(cmd)
	return cmd
}

func completeGPUQuotas(f *Factory) completer {
	return completeNames(f, func(ctx context.Context, reader *inventory.Reader) ([]string, error) {
		quotas, err := reader.GPUQuotas(ctx, f.Now())
		return collectNames(quotas, func(q inventory.GPUQuota) string { return q.Name }), err
	})
}

// quotaProblems returns the problem conditions that are true for a quota.
func quotaProblems(q *inventory.GPUQuota) (out []string) {
	for _, kind := range []string{names.ConditionOvercommitted, names.ConditionMinNotBacked} {
		if q.TrueCondition(kind) != nil {
			out = append(out, kind)
		}
	}
	return out
}

func gpuQuotaColumns(now time.Time) []column[inventory.GPUQuota] {
	type quota = inventory.GPUQuota
	known := func(of func(quota) *int64) func(quota) string {
		return func(q quota) string {
			if count := of(q); count != nil {
				return formatNumber(*count)
			}
			return ""
		}
	}
	return []column[quota]{
		{header: "NAME", value: func(q quota) string { return q.Name }},
		{header: "POOL", value: func(q quota) string { return q.Pool }},
		{header: "GPU-TYPE", value: func(q quota) string { return q.GPUType }},
		{header: "MIN", value: func(q quota) string { return formatNumber(q.Min) }},
		{header: "USED", value: known(func(q quota) *int64 { return q.Used })},
		{header: "BORROWED", value: known(func(q quota) *int64 { return q.Borrowed })},
		{header: "LENT", value: known(func(q quota) *int64 { return q.Lent })},
		{header: "FREE", wide: true, value: known(func(q quota) *int64 { return q.Free })},
		{header: "MAX", value: known(func(q quota) *int64 { return q.Max })},
		{header: "WAITING", value: func(q quota) string {
			if q.Waiting == nil {
				return ""
			}
			return formatNumber(q.Waiting.GPUs)
		}},
		{header: "PROBLEM", value: func(q quota) string { return strings.Join(quotaProblems(&q), ",") }},
		{header: "NAMESPACES", value: func(q quota) string { return strings.Join(q.Namespaces, ",") }},
		{header: "AGE", wide: true, value: func(q quota) string { return formatAge(now, q.Created) }},
	}
}
