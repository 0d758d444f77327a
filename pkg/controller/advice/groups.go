package advice

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"g8s.host/gpu-scheduler/pkg/controller/gangs"
	"g8s.host/gpu-scheduler/pkg/gang"
)

// readGroups reads what defines the gangs of the waiting pods. A simulation has no objects of operators, so the members of recognized gangs name
// PodGroups in it. A missing object makes no gang, as for the scheduler.
func (r *Reconciler) readGroups(ctx context.Context, s *Situation) error {
	found := groups{byName: map[string]gang.Gang{}, known: map[string]bool{}}
	for i := range s.Waiting.Pods {
		if err := found.readGroups(ctx, r.Live, &s.Waiting.Pods[i]); err != nil {
			return err
		}
	}
	s.Waiting.Pods, s.Pods = found.labelMembers(s.Waiting.Pods), found.labelMembers(s.Pods)
	s.Groups = found.objects
	return nil
}

// groups are those of waiting pods.
type groups struct {
	// objects are the PodGroups of a simulation.
	objects []unstructured.Unstructured
	// byName are the recognized gangs, by [gang.DefiningName]. known are the names that were read, and those of objects.
	byName map[string]gang.Gang
	known  map[string]bool
}

// readGroups reads what defines the gang of a pod.
func (g *groups) readGroups(ctx context.Context, live client.Reader, pod *corev1.Pod) error {
	name := gang.DefiningName(pod)
	if name == "" || g.known[name] {
		return nil
	}
	g.known[name] = true
	if _, named := gang.NamedGroup(pod); named {
		object, err := gangs.GroupOf(ctx, live, pod)
		if object != nil {
			g.objects = append(g.objects, *object)
		}
		return err
	}
	of, isGang, err := gangs.Define(ctx, live, pod)
	if err != nil || !isGang {
		return err
	}
	g.byName[name] = of
	_, object := of.AsLabelled(pod)
	if key := "PodGroup " + client.ObjectKeyFromObject(object).String(); !g.known[key] {
		g.known[key] = true
		g.objects = append(g.objects, *object)
	}
	return nil
}

// labelMembers returns pods of which the members of recognized gangs name PodGroups.
func (g *groups) labelMembers(pods []corev1.Pod) []corev1.Pod {
	out := make([]corev1.Pod, len(pods))
	for i := range pods {
		out[i] = pods[i]
		if of, isGang := g.byName[gang.DefiningName(&pods[i])]; isGang && of.HasMember(&pods[i]) {
			member, _ := of.AsLabelled(&pods[i])
			out[i] = *member
		}
	}
	return out
}
