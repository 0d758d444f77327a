package submit

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/conflict"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// SetPreset writes a preset of jobs, or removes it if the text is nil. Other presets are not changed. The caller must have validated the text: jobs
// cannot use an invalid preset.
func (c *Client) SetPreset(ctx context.Context, name string, text *string, dryRun bool) (Action, error) {
	var done Action
	err := conflict.Retry(retry.DefaultRetry, func() error {
		presets := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: names.PresetConfigMap}}
		err := c.api.Get(ctx, client.ObjectKeyFromObject(presets), presets)
		absent := apierrors.IsNotFound(err)
		if err != nil && !absent {
			return phrase.Errorf("reading the presets: %w", err)
		}
		before, there := presets.Data[name]
		switch {
		case text == nil && !there, text != nil && there && before == *text:
			done = ActionUnchanged
			return nil
		case text == nil:
			done = ActionDeleted
			delete(presets.Data, name)
		default:
			done = ActionCreated
			if there {
				done = ActionConfigured
			}
			if presets.Data == nil {
				presets.Data = map[string]string{}
			}
			presets.Data[name] = *text
		}
		return c.writePresets(ctx, presets, absent, dryRun)
	})
	return done, err
}

func (c *Client) writePresets(ctx context.Context, presets *corev1.ConfigMap, absent, dryRun bool) error {
	var create []client.CreateOption
	var update []client.UpdateOption
	if dryRun {
		create, update = append(create, client.DryRunAll), append(update, client.DryRunAll)
	}
	if absent {
		return c.api.Create(ctx, presets, create...)
	}
	return c.api.Update(ctx, presets, update...)
}
