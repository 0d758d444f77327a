package fakecloud

import (
	"context"
	"errors"

	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/controller/spot"
)

// The tags of machines.
const (
	tagCluster = "cluster"
	tagPool    = "pool"
)

// Connect makes the cloud one that SpotPools can use. Notices are in its lists.
func (c *Cloud) Connect(account spot.Account) (spot.Cloud, error) {
	return &connection{cloud: c, account: account}, nil
}

type connection struct {
	cloud   *Cloud
	account spot.Account
}

func (c *connection) tags() map[string]string {
	return map[string]string{tagCluster: c.account.Owner.Cluster, tagPool: c.account.Owner.Pool}
}

func (c *connection) Launch(_ context.Context, order spot.Order) (string, error) {
	id, err := c.cloud.Run(Order{
		Token: order.Token, Name: order.Machine, Type: order.InstanceType, Zone: order.Zone, Tags: c.tags(), UserData: c.account.UserData.Reveal(),
		Public: c.account.Template.Internet != nil && ptr.Deref(c.account.Template.Internet.PublicIP, true),
	})
	return id, translate(err)
}

func (c *connection) List(_ context.Context, known []string) ([]spot.Instance, error) {
	machines, err := c.cloud.List(c.tags(), known)
	if err != nil {
		return nil, translate(err)
	}
	out := make([]spot.Instance, len(machines))
	for i, m := range machines {
		out[i] = c.instance(m)
	}
	return out, nil
}

func (c *connection) instance(m Machine) spot.Instance {
	out := spot.Instance{
		ID: m.ID, Machine: m.Name, InstanceType: m.Type, Zone: m.Zone, PrivateIP: m.IP, PublicIP: m.PublicIP, Created: m.Launched, State: spot.Running,
	}
	if !m.Notice.IsZero() {
		out.Interruption = m.End
	}
	switch {
	case m.Asked:
		out.State = spot.Stopping
	case m.Ready.After(c.cloud.Now()):
		out.State = spot.Starting
	}
	return out
}

func (c *connection) Terminate(_ context.Context, ids []string) error {
	return translate(c.cloud.Terminate(ids))
}

// translate gives an error the words of package spot.
func translate(err error) error {
	kinds := map[error]spot.Kind{ErrThrottled: spot.Throttled, ErrSoldOut: spot.SoldOut, ErrRefused: spot.Refused, ErrDenied: spot.Denied}
	for is, kind := range kinds {
		if errors.Is(err, is) {
			return &spot.Error{Kind: kind}
		}
	}
	return err
}
