package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

type getQuotasOptions struct {
	listing[inventory.Quota]
	factory *Factory
}

func newGetQuotasCmd(f *Factory) *cobra.Command {
	o := &getQuotasOptions{factory: f}
	cmd := &cobra.Command{
		Use:     "quotas [NAME | NAMESPACE]...",
		Aliases: []string{"quota"},
		Short:   "List quotas: what namespaces have reserved of what they may",
		Long: "List quotas, one line for each namespace that one bounds, as USED/HARD. Without -n they are those of all\n" +
			"namespaces.",
		Example: "  gpuctl get quotas\n  gpuctl get quotas nlp-team -o yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			return runGetQuotas(cmd.Context(), o, args)
		},
	}
	o.listing = listing[inventory.Quota]{
		io: f.IO, now: f.Now, noun: "quota",
		columns: func(time.Time) []column[inventory.Quota] { return quotaColumns() },
		name:    func(q inventory.Quota) string { return q.Name },
		id:      func(q inventory.Quota) string { return q.Namespace },
		print:   func(q inventory.Quota) string { return "quota/" + q.Name },
	}
	o.addListFlags(cmd)
	return cmd
}

func runGetQuotas(ctx context.Context, o *getQuotasOptions, args []string) error {
	quotas, err := o.factory.readQuotas(ctx)
	if err != nil {
		return err
	}
	if len(args) > 0 {
		if quotas, err = pickQuotas(quotas, args); err != nil {
			return err
		}
	}
	return o.printNamed(quotas)
}

// readQuotas reads the quotas of -n, else of all namespaces, or of the current namespace if the user may not list all.
func (f *Factory) readQuotas(ctx context.Context) ([]inventory.Quota, error) {
	reader, err := f.newReader()
	if err != nil {
		return nil, err
	}
	quotas, err := reader.Quotas(ctx, f.explicitNamespace())
	if exitCode(err) != exitForbidden || f.explicitNamespace() != metav1.NamespaceAll {
		return quotas, err
	}
	namespace, err := f.currentNamespace()
	if err != nil {
		return nil, err
	}
	return reader.Quotas(ctx, namespace)
}

// pickQuotas returns the quotas whose name or namespace is given.
func pickQuotas(quotas []inventory.Quota, wanted []string) ([]inventory.Quota, error) {
	for _, word := range wanted {
		if !slices.ContainsFunc(quotas, func(q inventory.Quota) bool { return word == q.Name || word == q.Namespace }) {
			return nil, &notFoundError{
				what: phrase.Textf("quota %q", word), near: suggestSimilarBy(word, quotas, func(q *inventory.Quota) string { return q.Name }),
			}
		}
	}
	return slices.DeleteFunc(quotas, func(q inventory.Quota) bool {
		return !slices.Contains(wanted, q.Name) && !slices.Contains(wanted, q.Namespace)
	}), nil
}

func quotaColumns() []column[inventory.Quota] {
	type quota = inventory.Quota
	of := func(resource string) func(quota) string {
		return func(q quota) string { return usedOfHard(q, resource) }
	}
	return []column[quota]{
		{header: "NAME", value: func(q quota) string { return q.Name }},
		{header: "NAMESPACE", value: func(q quota) string { return q.Namespace }},
		{header: "GPU", value: of(names.ResourceGPU)},
		{header: "SHARED-GPU", wide: true, value: of(names.ResourceSharedGPU)},
		{header: "CPU", value: of(string(corev1.ResourceCPU))},
		{header: "MEMORY", value: of(string(corev1.ResourceMemory))},
		{header: "STORAGE", wide: true, value: of(string(corev1.ResourceStorage))},
		{header: "MIG", wide: true, value: usedOfProfiles},
		{header: "PODS", value: of(string(corev1.ResourcePods))},
	}
}

func usedOfHard(q inventory.Quota, resource string) string {
	bound, ok := q.ResourceBound(resource)
	if !ok {
		return ""
	}
	return bound.Used.String() + "/" + bound.Hard.String()
}

// usedOfProfiles formats the quota of MIG slices by profile.
func usedOfProfiles(q inventory.Quota) string {
	var out []string
	for _, bound := range q.Resources {
		if profile, ok := strings.CutPrefix(bound.Resource, names.ResourceMIGPrefix); ok {
			out = append(out, profile+" "+bound.Used.String()+"/"+bound.Hard.String())
		}
	}
	return strings.Join(out, ", ")
}

func boundColumns() []column[inventory.QuotaResource] {
	type bound = inventory.QuotaResource
	return []column[bound]{
		{header: "RESOURCE", value: func(b bound) string { return b.Resource }},
		{header: "USED", value: func(b bound) string { return b.Used.String() }},
		{header: "HARD", value: func(b bound) string { return b.Hard.String() }},
	}
}
