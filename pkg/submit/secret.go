package submit

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// KindSecret is the kind of a secret in a [Ref].
const KindSecret = "secret"

// Secret is a Secret for jobs without its values. JSON keys are a contract.
type Secret struct {
	Name string `json:"name"`
	// Registry is the server of an image pull secret, "" for any other secret.
	Registry string `json:"registry,omitempty"`
	// Keys are the names of its values, sorted.
	Keys    []string  `json:"keys,omitempty"`
	Created time.Time `json:"created"`
}

// Registry is the login of an image registry.
type Registry struct{ Server, Username, Password string }

// SecretValues are what [Client.SetSecret] writes: values by key, or the login of a registry.
type SecretValues struct {
	Values   map[string][]byte
	Registry *Registry
}

// ForeignObjectError says that an object of the name exists and that gpuctl did not make it.
type ForeignObjectError struct{ Ref Ref }

func (e *ForeignObjectError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *ForeignObjectError) Message() phrase.Text {
	return phrase.Textf("%s %q of namespace %s was not made by gpuctl, which leaves it as it is: nothing was done", e.Ref.Kind, e.Ref.Name, e.Ref.Namespace)
}

// encode returns the type and the data of the Secret.
func (v *SecretValues) encode() (corev1.SecretType, map[string][]byte, error) {
	if v.Registry == nil {
		return corev1.SecretTypeOpaque, v.Values, nil
	}
	r := v.Registry
	login := map[string]string{
		"username": r.Username, "password": r.Password, "auth": base64.StdEncoding.EncodeToString([]byte(r.Username + ":" + r.Password)),
	}
	text, err := json.Marshal(map[string]any{"auths": map[string]any{r.Server: login}})
	return corev1.SecretTypeDockerConfigJson, map[string][]byte{corev1.DockerConfigJsonKey: text}, err
}

// SetSecret creates a secret, or sets keys of one that gpuctl made. Keys that are not given stay.
func (c *Client) SetSecret(ctx context.Context, namespace, name string, values SecretValues, dryRun bool) (Result, error) {
	kind, data, err := values.encode()
	if err != nil {
		return Result{}, err
	}
	out := Result{Ref: Ref{Namespace: namespace, Name: name, Kind: KindSecret}, Action: ActionConfigured}
	live := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	switch err := c.api.Get(ctx, client.ObjectKeyFromObject(live), live); {
	case apierrors.IsNotFound(err):
		out.Action, live.Type, live.Data = ActionCreated, kind, data
		live.Labels = map[string]string{names.LabelManagedBy: names.ManagedByGpuctl}
		return out, c.createNamed(ctx, live, dryRun)
	case err != nil:
		return Result{}, phrase.Errorf("reading secret %s: %w", name, err)
	case !isOurs(live):
		return Result{}, &ForeignObjectError{Ref: out.Ref}
	case live.Type != kind:
		return Result{}, phrase.Errorf("secret %[1]q is of another type, which Kubernetes does not change: nothing was done\nDelete it first: gpuctl secret delete %[1]s -n %[2]s", name, namespace)
	}
	merged := maps.Clone(live.Data)
	if merged == nil {
		merged = map[string][]byte{}
	}
	maps.Copy(merged, data)
	if maps.EqualFunc(merged, live.Data, slices.Equal[[]byte]) {
		out.Action = ActionUnchanged
		return out, nil
	}
	live.Data = merged
	var opts []client.UpdateOption
	if dryRun {
		opts = append(opts, client.DryRunAll)
	}
	return out, c.api.Update(ctx, live, opts...)
}

// createNamed creates an object that belongs to no job.
func (c *Client) createNamed(ctx context.Context, object client.Object, dryRun bool) error {
	var opts []client.CreateOption
	if dryRun {
		opts = append(opts, client.DryRunAll)
	}
	return c.api.Create(ctx, object, opts...)
}

// Secrets lists the secrets of a namespace that gpuctl made, sorted by name, without their values.
func (c *Client) Secrets(ctx context.Context, namespace string) ([]Secret, error) {
	list := &corev1.SecretList{}
	if err := c.api.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{names.LabelManagedBy: names.ManagedByGpuctl}); err != nil {
		return nil, phrase.Errorf("listing secrets: %w", err)
	}
	out := make([]Secret, 0, len(list.Items))
	for i := range list.Items {
		secret := &list.Items[i]
		row := Secret{Name: secret.Name, Created: secret.CreationTimestamp.Time, Keys: slices.Sorted(maps.Keys(secret.Data))}
		if secret.Type == corev1.SecretTypeDockerConfigJson {
			row.Registry = registryOf(secret.Data[corev1.DockerConfigJsonKey])
		}
		out = append(out, row)
	}
	return out, nil
}

// registryOf returns the server of an image pull secret, the first by name where another tool wrote several, and "" if it cannot be read.
func registryOf(config []byte) string {
	var known struct {
		Auths map[string]struct{} `json:"auths"`
	}
	if json.Unmarshal(config, &known) != nil {
		return ""
	}
	if servers := slices.Sorted(maps.Keys(known.Auths)); len(servers) > 0 {
		return servers[0]
	}
	return ""
}

// DeleteSecret deletes a secret that gpuctl made.
func (c *Client) DeleteSecret(ctx context.Context, namespace, name string, dryRun bool) (Result, error) {
	live := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := c.api.Get(ctx, client.ObjectKeyFromObject(live), live); err != nil {
		return Result{}, phrase.Errorf("deleting %s %s: %w", KindSecret, name, err)
	}
	return c.deleteNamed(ctx, live, KindSecret, dryRun)
}

// deleteNamed deletes an object that was read, if it is gpuctl's and was not replaced meanwhile.
func (c *Client) deleteNamed(ctx context.Context, live client.Object, kind string, dryRun bool) (Result, error) {
	out := Result{Ref: Ref{Namespace: live.GetNamespace(), Name: live.GetName(), Kind: kind}, Action: ActionDeleted}
	if !isOurs(live) {
		return Result{}, &ForeignObjectError{Ref: out.Ref}
	}
	uid := live.GetUID()
	opts := []client.DeleteOption{client.Preconditions{UID: &uid}}
	if dryRun {
		opts = append(opts, client.DryRunAll)
	}
	return out, c.api.Delete(ctx, live, opts...)
}
