// Package placement finds places for the members of a gang on the nodes of a snapshot: how many members of each class a node takes, now and with
// other pods gone, which domains hold them together, and when they fit first. It gives problems to pkg/gangplan, whose solutions it turns into
// plans for pods. It changes nothing, and depends on no plugin.
package placement
