package simulate

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"g8s.host/gpu-scheduler/plugins"
	"g8s.host/gpu-scheduler/plugins/coscheduling"
)

// withoutGangs stands in for Coscheduling, which reads PodGroups from an API server: it sorts pods as kube-scheduler
// does by itself, and holds none back.
type withoutGangs struct{ fwk.QueueSortPlugin }

// Name returns the name of the plugin that it stands in for.
func (withoutGangs) Name() string { return coscheduling.Name }

func newWithoutGangs(ctx context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	plugin, err := queuesort.New(ctx, nil, handle)
	if err != nil {
		return nil, err
	}
	sort, ok := plugin.(fwk.QueueSortPlugin)
	if !ok {
		return nil, fmt.Errorf("%s is a %T, want a plugin that sorts", queuesort.Name, plugin)
	}
	return withoutGangs{sort}, nil
}

// registry is that of production, but for what only works with an API server.
func registry() frameworkruntime.Registry {
	all := plugins.Registry(plugins.Dependencies{})
	all[coscheduling.Name] = newWithoutGangs
	return all
}
