/** The colours of the classes of states, as views/state_classes.py has them: light and dark. */
export const CLASS_COLORS: Readonly<Record<string, readonly [light: string, dark: string]>> = {
  running: ["#1d8759", "#42be90"],
  runnable: ["#f6b324", "#efb822"],
  blocked: ["#b90005", "#f2482c"],
  lock: ["#9952ba", "#c29de4"],
  "i/o": ["#659cd3", "#2676c6"],
  thread: ["#76bec1", "#00736b"],
  tasks: ["#adb0f4", "#594e97"],
  queue: ["#a3cae3", "#124a74"],
  sleep: ["#d1d5dd", "#333a4b"],
  idle: ["#ebedf1", "#1f2024"],
  new: ["#b9a796", "#a28677"],
  failed: ["#841c58", "#b34588"],
};
