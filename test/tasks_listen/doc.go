// Package tasks_listen holds black-box tests of listening for tasks: taskIds in
// subscriptions/listen and notifications/tasks (DESIGN sections 8 and 9, checklist
// 58 to 61, 72 and 77).
package tasks_listen
