package submit

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"g8s.host/gpu-scheduler/pkg/channel"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/quota"
	"g8s.host/gpu-scheduler/pkg/render"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// Facts is the cluster state that rendering a job depends on.
type Facts interface {
	SharedPools(ctx context.Context) (map[string]bool, error)
	AliasedTypes(ctx context.Context, types []string) (map[string]bool, error)
	HostPaths(ctx context.Context) ([]string, error)
	// GPUDefaults returns the GPUs that limit ranges of a namespace give pods which do not name them.
	GPUDefaults(ctx context.Context, namespace string) ([]quota.Default, error)
	// Policy returns what administrators allow; nil if it is not readable.
	Policy(ctx context.Context) (map[string]string, error)
}

// RenderOptions reads the cluster state that rendering the documents depends on, and nothing that they do not need. namespace is the namespace of
// documents that name none. The warnings say what could not be read for lack of rights, and the consequences.
func RenderOptions(ctx context.Context, facts Facts, docs []workload.Document, namespace string) (render.Options, []phrase.Text, error) {
	opts := render.Options{Namespace: namespace}
	need := collectNeeds(docs)
	var warnings []phrase.Text
	var err error
	if need.share {
		opts.SharedPools, err = facts.SharedPools(ctx)
		if apierrors.IsForbidden(err) {
			warnings, err = append(warnings, phrase.Textf("you may not list nodes, so jobs with gpu-share get whole GPUs")), nil
		}
	}
	if err == nil && len(need.types) > 0 {
		opts.AliasedTypes, err = facts.AliasedTypes(ctx, need.types)
		if apierrors.IsForbidden(err) {
			err = nil // the job requests the label that nodes should have
		}
	}
	if err == nil && need.hostPaths {
		opts.HostPaths, err = facts.HostPaths(ctx)
	}
	if err == nil && need.channels {
		var policy map[string]string
		if policy, err = facts.Policy(ctx); policy != nil {
			warnings = append(warnings, channelWarnings(policy, docs, namespace)...)
		}
	}
	if err == nil {
		var given []phrase.Text
		opts.DefaultedGPUs, given, err = GPUDefaults(ctx, facts, docs, namespace)
		warnings = append(warnings, given...)
	}
	return opts, warnings, err
}

// GPUDefaults returns which GPUs jobs must request 0 of, by namespace, and warns of jobs that request no GPUs but get some from limit ranges.
func GPUDefaults(ctx context.Context, facts Facts, docs []workload.Document, namespace string) (map[string][]corev1.ResourceName, []phrase.Text, error) {
	var out map[string][]corev1.ResourceName
	var warnings []phrase.Text
	read := map[string]bool{}
	for _, doc := range docs {
		space := cmp.Or(doc.Namespace, namespace)
		if doc.Job == nil || space == "" || read[space] {
			continue
		}
		read[space] = true
		defaults, err := facts.GPUDefaults(ctx, space)
		if err != nil {
			return nil, nil, err
		}
		for _, given := range defaults {
			if !given.Forced {
				if out == nil {
					out = map[string][]corev1.ResourceName{}
				}
				out[space] = append(out[space], given.Resource)
			}
		}
		warnings = append(warnings, defaultedGPUWarnings(defaults, docs, space, namespace)...)
	}
	return out, warnings, nil
}

// defaultedGPUWarnings warns of the jobs of one namespace that request no GPUs and would get some.
func defaultedGPUWarnings(defaults []quota.Default, docs []workload.Document, space, namespace string) []phrase.Text {
	var out []phrase.Text
	for _, doc := range docs {
		if doc.Job == nil || cmp.Or(doc.Namespace, namespace) != space || doc.Job.Resources.AsksGPUs() {
			continue
		}
		for _, given := range defaults {
			out = append(out, phrase.Textf("job %s asks for no GPUs: %s", doc.Name, given.Warning()))
		}
	}
	return out
}

// channelWarnings warns of jobs whose channel does not exist. They are not refused, because they run regardless.
func channelWarnings(policy map[string]string, docs []workload.Document, namespace string) []phrase.Text {
	var out []phrase.Text
	for _, doc := range docs {
		if doc.Job == nil || doc.Job.Notify == nil {
			continue
		}
		if why := channel.RefusalReason(policy, cmp.Or(doc.Namespace, namespace), doc.Job.Notify.Channel); len(why) > 0 {
			out = append(out, phrase.Textf("nobody will be told how job %s ends: %s", doc.Name, why))
		}
	}
	return out
}

// renderNeeds is the cluster state that documents need.
type renderNeeds struct {
	share     bool
	types     []string
	hostPaths bool
	channels  bool
}

func collectNeeds(docs []workload.Document) renderNeeds {
	var n renderNeeds
	for _, doc := range docs {
		if doc.Job == nil {
			continue
		}
		asked := &doc.Job.Resources
		n.share = n.share || asked.GPUShare != nil
		if len(asked.GPUTypes) == 1 && !asked.GPUTypesListed {
			n.types = append(n.types, asked.GPUTypes[0])
		}
		n.channels = n.channels || doc.Job.Notify != nil
		for dir := range doc.Job.Storage.Dirs() {
			n.hostPaths = n.hostPaths || dir.Path != ""
		}
	}
	slices.Sort(n.types)
	n.types = slices.Compact(n.types)
	return n
}
