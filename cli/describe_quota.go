package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// describedQuotas are the quotas with a given name, or of a given namespace: ResourceQuotas and GPUQuotas. JSON keys are a contract.
type describedQuotas struct {
	Items     []inventory.Quota    `json:"items"`
	GPUQuotas []inventory.GPUQuota `json:"gpuQuotas,omitempty"`
}

func newDescribeQuotaCmd(f *Factory) *cobra.Command {
	var o *output
	cmd := &cobra.Command{
		Use:     "quota {NAME | NAMESPACE}",
		Aliases: []string{"quotas", "gpuquota", "gpuquotas"},
		Short:   "Show one quota, or those of a namespace: what is in use, what is lent, and to whom",
		Long: "Show one quota, or those of a namespace: what each namespace has reserved of what it may, and of GPUQuotas what is in\n" +
			"use, what is borrowed, who borrows what the quota lends, and whether more is guaranteed than there is. Who may not see\n" +
			"the pods of all namespaces gets the numbers from gpu-controller, and no names of jobs.",
		Example: "  gpuctl describe quota research-quota\n  gpuctl describe gpuquota team-a-h100",
		Args:    requireOneArg(phrase.Textf("the name of one quota, or of a namespace")),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDescribeQuota(cmd.Context(), f, o, args[0])
		},
		ValidArgsFunction: completeGPUQuotas(f),
	}
	o = describeOutput(cmd)
	return cmd
}

func runDescribeQuota(ctx context.Context, f *Factory, o *output, name string) error {
	found, err := findQuotas(ctx, f, name)
	if err != nil {
		return err
	}
	if o.format != "" {
		return writeEncoded(f.IO.Out, o.format, found)
	}
	d := newDescription(f.IO)
	if len(found.Items) > 0 {
		if err := describeQuotas(d, found.Items); err != nil {
			return err
		}
	}
	for i := range found.GPUQuotas {
		if i > 0 || len(found.Items) > 0 {
			fmt.Fprintln(f.IO.Out)
		}
		if err := describeGPUQuota(d, &found.GPUQuotas[i], f.Now()); err != nil {
			return err
		}
	}
	return nil
}

// findQuotas finds the quotas with a name, or of a namespace. A user who may read only one kind gets that kind; a cluster may not have GPUQuotas.
func findQuotas(ctx context.Context, f *Factory, name string) (*describedQuotas, error) {
	out := &describedQuotas{Items: []inventory.Quota{}}
	shares, missing := f.gpuQuotas(ctx)
	for i := range shares {
		if shares[i].Name == name || slices.Contains(shares[i].Namespaces, name) {
			out.GPUQuotas = append(out.GPUQuotas, shares[i])
		}
	}
	quotas, err := f.readQuotas(ctx)
	if err == nil {
		out.Items, err = pickQuotas(quotas, []string{name})
	}
	switch {
	case len(out.GPUQuotas) > 0 && err != nil:
		out.Items = []inventory.Quota{}
	case err == nil:
	case exitCode(err) == exitNotFound && missing == nil:
		return nil, &notFoundError{what: phrase.Textf("quota %q", name), near: suggestSimilar(name, namesOfQuotas(quotas, shares))}
	default:
		return nil, err
	}
	return out, nil
}

func namesOfQuotas(quotas []inventory.Quota, shares []inventory.GPUQuota) []string {
	return slices.Concat(collectNames(quotas, func(q inventory.Quota) string { return q.Name }), collectNames(shares, func(q inventory.GPUQuota) string { return q.Name }))
}

// gpuQuotas returns the GPUQuotas, or why they cannot be read.
func (f *Factory) gpuQuotas(ctx context.Context) ([]inventory.GPUQuota, error) {
	reader, err := f.newReader()
	if err != nil {
		return nil, err
	}
	return reader.GPUQuotas(ctx, f.Now())
}

func describeQuotas(d *description, quotas []inventory.Quota) error {
	d.writeField("Name", quotas[0].Name)
	d.writeField("Description", quotas[0].Description)
	for _, quota := range quotas {
		if err := describeRows(d, phrase.Textf("Namespace %s", quota.Namespace).Localize(d.language), quota.Resources, boundColumns()); err != nil {
			return err
		}
	}
	return nil
}

func describeGPUQuota(d *description, q *inventory.GPUQuota, now time.Time) error {
	d.writeField("GPUQuota", q.Name)
	d.writeField("Pool", q.Pool)
	d.writeField("GPU type", q.GPUType)
	d.writeField("Namespaces", strings.Join(q.Namespaces, ", "))
	d.writeField("Min", formatNumber(q.Min))
	if q.Max != nil {
		d.writeField("Max", formatNumber(*q.Max))
	}
	if q.Used == nil {
		d.writeText("Used", phrase.Textf("not known: you may not see the pods of all namespaces, and gpu-controller has not counted them yet"))
		return nil
	}
	d.writeText("Used", usedSentence(q))
	d.writeText("Left of min", leftSentence(q))
	if waits := q.Waiting; waits != nil {
		d.writeText("Waiting", waitingSentence(waits, now))
	}
	for _, kind := range []string{names.ConditionOvercommitted, names.ConditionMinNotBacked} {
		if condition := q.TrueCondition(kind); condition != nil {
			d.writeText("Problem", phrase.Textf("%s for %s: %s", kind, formatAge(now, condition.LastTransitionTime.Time), phrase.FromEnglish(condition.Message)))
		}
	}
	return describeRows(d, "Who borrows in the pool", q.Borrowers, borrowerColumns())
}

func usedSentence(q *inventory.GPUQuota) phrase.Text {
	if *q.Borrowed == 0 {
		return phrase.Quote(formatNumber(*q.Used))
	}
	return phrase.Textf("%d, of which %d are borrowed: they go back to who is guaranteed them", *q.Used, *q.Borrowed)
}

// leftSentence says how much of the min is not in use, or nothing if there is no min.
func leftSentence(q *inventory.GPUQuota) phrase.Text {
	switch {
	case q.Min == 0:
		return nil
	case *q.Lent == 0:
		return phrase.Textf("%d free now", *q.Free)
	}
	return phrase.Textf("%d free now, %d lent: who borrows them leaves for a job of these namespaces", *q.Free, *q.Lent)
}

func waitingSentence(w *inventory.QuotaWaiting, now time.Time) phrase.Text {
	if w.Jobs == 0 {
		return nil
	}
	out := phrase.Textf("%s with %s", countText(w.Jobs, "job"), countText(int(w.GPUs), "GPU"))
	if w.Since != nil {
		out = out.Addf(", the first for %s", formatAge(now, *w.Since))
	}
	return out
}

func borrowerColumns() []column[inventory.QuotaBorrower] {
	type borrower = inventory.QuotaBorrower
	return []column[borrower]{
		{header: "NAMESPACE", value: func(b borrower) string { return b.Namespace }},
		{header: "GPUS", value: func(b borrower) string { return formatNumber(b.GPUs) }},
		{header: "JOBS", value: func(b borrower) string { return strings.Join(b.Jobs, ", ") }},
	}
}
