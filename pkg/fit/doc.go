// Package fit tells what keeps a pod from a node: taints, affinity to nodes, cards, and what Kubernetes counts. It
// finds everything that is in the way where the scheduler stops at the first, and it decides about cards with the
// allocator that the scheduler uses.
//
// It is for those who ask beside the scheduler, to explain or to plan. What a node alone cannot show is left out:
// volumes, affinity between pods, spreading, host ports and device claims.
package fit
